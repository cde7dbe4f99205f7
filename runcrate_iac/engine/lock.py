"""One command at a time on a cluster: the second is refused with who holds the lock, and since when (F17)."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from runcrate_iac.errors import Refused
from runcrate_iac.paths import cluster_dir, private_dir


@contextmanager
def locked(cluster: str, verb: str) -> Iterator[None]:
    """Hold the cluster's lock. The kernel lets go of it when this process dies, so no lock is ever stale.

    Raises :class:`Refused` where another process holds it.
    """
    path = private_dir(cluster_dir(cluster)) / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"{cluster}: {_holder(descriptor)}", "wait for it, or interrupt it") from None
        who = {"verb": verb, "pid": os.getpid(), "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"}
        with suppress(OSError):  # a full disk: the lock holds, whoever it is
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(who).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder(lock: Path) -> str:
    """Who holds this lock file now; empty where nobody does."""
    descriptor = os.open(lock, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor)
    finally:
        os.close(descriptor)
    return ""


def _holder(descriptor: int) -> str:
    try:
        who = json.loads(os.pread(descriptor, 4096, 0))
        return f"`{who['verb']}` is working on it, process {who['pid']} since {who['since']}"
    except (ValueError, KeyError):
        return "another command is working on it"
