"""Child processes, each in a process group of its own, so that cancelling leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class Cancelled(Exception):
    """Nothing is started any more."""


class Children:
    """The processes that run now. Safe to use from many threads."""

    def __init__(self) -> None:
        """No children yet."""
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._cancelled = False

    def cancel(self) -> None:
        """Kill every running process with its group, and refuse new ones."""
        with self._lock:
            self._cancelled = True
            for process in self._running:
                _kill(process)

    @contextmanager
    def started(
        self,
        argv: Sequence[str],
        *,
        directory: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process, waited for when the block is left. Raises what Popen raises, or :class:`Cancelled`."""
        with self._lock:
            if self._cancelled:
                raise Cancelled
            process = subprocess.Popen(
                argv, cwd=directory, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, process_group=0
            )
            self._running.add(process)
        try:
            yield process
            process.wait()
        finally:
            with self._lock:
                self._running.discard(process)
            _kill(process)
            process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its group, unless it was waited for: then the number may belong to someone else."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)


def outcome(code: int) -> str:
    """How a process ended, from its return code, in the words of Go's ``os/exec``."""
    if code >= 0:
        return f"exit status {code}"
    return f"signal: {(signal.strsignal(-code) or str(-code)).lower()}"
