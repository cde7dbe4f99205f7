"""Virtual machines on this computer: no cloud account, no root, no bridge."""

from __future__ import annotations

from runcrate_iac.machines.local.provider import LocalProvider

__all__ = ["LocalProvider"]
