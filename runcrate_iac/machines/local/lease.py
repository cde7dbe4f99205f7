"""The lease on the machine itself: it powers itself off at its deadline, unless the join ended the lease before.

``systemctl stop runcrate-lease.timer`` ends it for good; a reboot before that keeps it.
"""

from __future__ import annotations

from pathlib import Path

TIMER = "runcrate-lease.timer"
DEADLINE_FILE = "/etc/runcrate/lease"
"""On the machine: seconds since the epoch; while it exists, the lease runs."""
UNITS = tuple(sorted((Path(__file__).parent / "guest" / "units").iterdir()))
"""The systemd units that watch over it."""
