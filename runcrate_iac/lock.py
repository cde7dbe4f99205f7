"""One command at a time on a cluster, and one step: the second is refused with who works, and since when (F17).

A command's steps are processes of Pulumi's while the command waits for it, so each of the two has a lock of its own.
The kernel lets go of a lock when its process dies, so none is ever stale.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runcrate_iac.errors import Refused
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import cluster_dir, private_dir, state_dir

COMMAND, STEP = "lock", "step"
"""The files in a cluster's folder that are locked."""
STEP_WAITS = 60.0
"""Seconds that a step waits for another one: that of a Pulumi that was killed ends some seconds after it."""
COMMAND_WAITS = 10.0
"""Seconds that a command waits for a step."""
TELL_AFTER = 2.0
POLL = 0.2


@contextmanager
def locked(cluster: str, verb: str) -> Iterator[None]:
    """Hold the lock of the cluster's commands.

    Raises :class:`Refused` where another process holds it.
    """
    with _opened(cluster, COMMAND) as descriptor:
        if not _taken(descriptor, verb):
            raise Refused(f"{cluster}: {_holder(descriptor)}", "wait for it, or interrupt it")
        yield


@contextmanager
def at_work(cluster: str, verb: str, report: Report, seconds: float) -> Iterator[None]:
    """Hold the lock of the cluster's steps, whichever Pulumi runs them; it is waited for, for ``seconds``.

    Raises :class:`Refused` where another process holds it then.
    """
    with _opened(cluster, STEP) as descriptor:
        begun, told = time.monotonic(), False
        while not _taken(descriptor, verb):
            waited = time.monotonic() - begun
            if waited >= seconds:
                pid = _who(descriptor).get("pid", "PID")
                remedy = f"wait for it, or interrupt it where it was started; where that is gone: kill {pid}"
                raise Refused(f"{cluster}: {_holder(descriptor)}", remedy)
            if waited >= TELL_AFTER and not told:
                report(f"waiting up to {seconds:.0f} s: {_holder(descriptor)}", None)
                told = True
            time.sleep(POLL)
        yield


def busy() -> dict[str, str]:
    """Who works on which cluster name now."""
    locks = [path for file in (STEP, COMMAND) for path in (state_dir() / "clusters").glob(f"*/{file}")]
    return {path.parent.name: who for path in locks if (who := holder(path))}


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


@contextmanager
def _opened(cluster: str, file: str) -> Iterator[int]:
    descriptor = os.open(private_dir(cluster_dir(cluster)) / file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int, verb: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    who = {"verb": verb, "pid": os.getpid(), "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"}
    with suppress(OSError):  # a full disk: the lock holds, whoever it is
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(who).encode(), 0)
    return True


def _who(descriptor: int) -> dict[str, Any]:
    try:
        return dict(json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):
        return {}


def _holder(descriptor: int) -> str:
    try:
        who = _who(descriptor)
        return f"`{who['verb']}` is working on it, process {who['pid']} since {who['since']}"
    except KeyError:
        return "another command is working on it"
