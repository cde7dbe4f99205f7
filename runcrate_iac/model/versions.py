"""The versions of the software that nodes run and that is not of their distribution: pinned here, and nowhere else."""

from __future__ import annotations

KUBERNETES = "1.37.2"
RAY = "2.60.0"
