"""The lease's end: once the cluster is committed, its machines no longer stop by themselves (X2)."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from runcrate_iac.provision.remote import File, converge, files

TIMER = "runcrate-lease.timer"
_COMMITTED = File(
    "/etc/runcrate/committed", "This machine belongs to a cluster that has joined: runcrate-lease lets it run.\n"
)
_SCRIPT = f"""\
{files(_COMMITTED)}
if systemctl --quiet is-active {TIMER} || [ -e /etc/systemd/system/timers.target.wants/{TIMER} ]; then
  run systemctl disable --quiet --now {TIMER}
fi
"""


@deploy("Lease")
def disarm() -> None:
    """Disarm the timer that would power this machine off, now and after a reboot; no timer is no error."""
    converge(name="disarm the lease", text=_SCRIPT)
