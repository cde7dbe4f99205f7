"""The lease: what ends a machine's part in a cluster that was not committed in time, though no controller is left (X2).

Machines of a provider power themselves off, by a timer that their first boot armed. On machines that no provider ends,
the join arms one first that undoes what the join did. The join's last act disarms both.
"""

from __future__ import annotations

import time

from pyinfra import host
from pyinfra.api.deploy import deploy

from runcrate_iac.machines.lease import TIMER
from runcrate_iac.model.kubernetes import POD_NETWORK
from runcrate_iac.provision.context import cluster
from runcrate_iac.provision.remote import File, converge, files, script
from runcrate_iac.render import render

_UNITS = "/etc/systemd/system"
MARGIN = 20
"""Seconds after the deadline at which the lease ends: by then nothing disarms it any more, see ``provision.run``."""


@deploy("Arm the lease")
def arm() -> None:
    """Record from now on what is there before a change, and undo all of it soon after the deadline.

    Reads host data ``runcrate_cluster_id`` and ``runcrate_lease``: the deadline in seconds since the epoch. Without
    one the node is part of the cluster already.
    """
    here = cluster()
    if host.data.runcrate_lease is None:
        script(name="arm the lease", text="", differs=False)
        return
    seconds = max(1, round(host.data.runcrate_lease - time.time())) + MARGIN
    leave = render("lease/leave.sh.j2", plan=here.plan, node=here.node, pod_network=POD_NETWORK)
    wanted = [
        File("/usr/local/lib/runcrate/leave", leave, mode="755"),
        File("/var/lib/runcrate/cluster", f"{host.data.runcrate_cluster_id}\n"),
        File(f"{_UNITS}/runcrate-leave.service", render("lease/runcrate-leave.service")),
        File(f"{_UNITS}/runcrate-leave.timer", render("lease/runcrate-leave.timer.j2", seconds=seconds)),
    ]
    converge(name="arm the lease", text=files(*wanted) + render("lease/arm.sh.j2"))


@deploy("Disarm the lease")
def disarm() -> None:
    """Disarm what would end this machine's part, now and after a reboot; no timer is no error.

    Fails where host data ``runcrate_lease`` says that the join armed it, and it has ended meanwhile.
    """
    armed = host.data.get("runcrate_lease") is not None
    converge(name="disarm the lease", text=render("lease/disarm.sh.j2", power_off=TIMER, armed=armed))
