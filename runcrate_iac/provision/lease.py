"""The lease that the join arms on machines that no provider ends: it undoes what the join did (X2)."""

from __future__ import annotations

import time

from runcrate_iac.model.kubernetes import POD_NETWORK
from runcrate_iac.provision.context import Context
from runcrate_iac.provision.remote import File, files
from runcrate_iac.render import render

_UNITS = "/etc/systemd/system"
MARGIN = 20
"""Seconds after the deadline at which the lease ends: by then nothing disarms it any more, see ``provision.run``."""


def armed(here: Context, cluster_id: str, deadline: float | None) -> str:
    """The shell text that from now on records what is there before a change, and undoes all of it after the deadline.

    ``deadline`` in seconds since the epoch; without one the node is part of the cluster already, and nothing is done.
    Nor is it on a machine of a cluster that is up which has another address by now: that lease would end its part.
    """
    if deadline is None:
        return ""
    seconds = max(1, round(deadline - time.time())) + MARGIN
    leave = render("lease/leave.sh.j2", plan=here.plan, node=here.node, pod_network=POD_NETWORK)
    wanted = [
        File("/usr/local/lib/runcrate/leave", leave, mode="755"),
        File("/var/lib/runcrate/cluster", f"{cluster_id}\n{here.node.name}\n"),
        File(f"{_UNITS}/runcrate-leave.service", render("lease/runcrate-leave.service")),
        File(f"{_UNITS}/runcrate-leave.timer", render("lease/runcrate-leave.timer.j2", seconds=seconds)),
    ]
    text = files(*wanted) + render("lease/arm.sh.j2")
    if here.membership is None or here.node.index >= here.membership.settled:
        return text
    return f"{render('lease/member.sh.j2', cluster_id=cluster_id)}is_member || {{\n{text}}}\n"
