"""The lease's end: once the cluster is committed, its machines no longer stop by themselves (X2)."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from runcrate_iac.provision.remote import converge

_TIMER = "runcrate-lease.timer"
_SCRIPT = f"""\
for armed in /etc/systemd/system/timers.target.wants/{_TIMER} /run/systemd/transient/{_TIMER} /etc/runcrate/lease; do
  if [ -e $armed ]; then
    run systemctl disable --quiet --no-reload --now {_TIMER}
    [ -n "${{dry-}}" ] || rm -f /etc/runcrate/lease
    break
  fi
done
"""


@deploy("Lease")
def disarm() -> None:
    """Disarm the timer that would power this machine off, now and after a reboot; no timer is no error."""
    converge(name="disarm the lease", text=_SCRIPT)
