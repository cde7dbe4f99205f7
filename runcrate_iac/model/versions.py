"""The versions of the software that nodes run and that is not of their distribution: pinned here, and nowhere else."""

from __future__ import annotations

KUBERNETES = "1.37.2"
"""1.38 will ask the container runtime for ``RuntimeConfig``, which containerd 1 of older distributions lacks."""
RAY = "2.60.0"
NODE_PYTHON = "3.13"
"""The Python of Debian trixie, which the machines of this computer run: what Ray's wheels are fetched for."""
