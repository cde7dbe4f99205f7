"""Kubernetes' artifacts for the tests on real machines, made once for a computer: ten minutes of two cores."""

from __future__ import annotations

import time
from pathlib import Path

from runcrate_iac.artifacts.build import kubernetes

_begun = time.monotonic()


def tell(message: str, _node: str | None) -> None:
    """Print what is done."""
    print(f"[{time.monotonic() - _begun:6.1f} s] {message}", flush=True)


def directory() -> Path:
    """The artifact directory, in the user's cache folder."""
    return kubernetes.made(tell)
