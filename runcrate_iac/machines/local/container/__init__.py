"""Container machines on this computer: systemd in systemd-nspawn, each with its own disk and address (Linux, root)."""

from __future__ import annotations
