"""Kubernetes' artifacts for the tests on real machines: `python -m tests.artifacts` makes them, once for a computer.

Ten minutes of two cores where nothing is cached, so it is begun before the other rings. Who needs them meanwhile waits.
"""

from __future__ import annotations

import os
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


if __name__ == "__main__":
    os.nice(10)
    print(directory())
