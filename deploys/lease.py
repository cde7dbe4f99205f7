"""The lease: what ends a machine's part in a cluster that was not committed in time, though no controller is left (X2).

Machines of a provider power themselves off, by a timer that their first boot armed. On machines that no provider ends,
the join's first change arms one that undoes what the join did. Its last act disarms both.
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.deploy import deploy

from runcrate_iac.machines.lease import TIMER
from runcrate_iac.provision.remote import converge
from runcrate_iac.render import render


@deploy("Disarm the lease")
def disarm() -> None:
    """Disarm what would end this machine's part, now and after a reboot; no timer is no error.

    Fails where host data ``runcrate_lease`` says that the join armed it, and it has ended meanwhile.
    """
    armed = host.data.get("runcrate_lease") is not None
    converge(name="disarm the lease", text=render("lease/disarm.sh.j2", power_off=TIMER, armed=armed))
