"""Long child processes with a deadline and signs of life."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from runcrate_iac.errors import Failed
from runcrate_iac.model.progress import Report

_EVERY_SECONDS = 4
_KEPT_LINES = 30


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    last_lines: str
    """The newest thirty lines of what it printed."""


def watch(
    argv: Sequence[str],
    title: str,
    report: Report,
    *,
    seconds: float,
    how_far: Callable[[str], str] = lambda _line: "",
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    output: IO[str] | None = None,
) -> Ended:
    """Run a process to its end, reporting at least every four seconds, and kill it at its deadline.

    ``how_far`` turns each printed line into what is reported beside the title. Standard output goes to
    ``output`` where that is given, else it is read like standard error. Raises :class:`Failed` at the deadline.
    """
    report(title, None)
    started = time.monotonic()
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    state = ""
    process = subprocess.Popen(
        argv,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output or subprocess.PIPE,
        stderr=subprocess.PIPE if output else subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    pipe = process.stderr or process.stdout
    assert pipe  # noqa: S101 - one of them is a pipe

    def read() -> None:
        nonlocal state
        with pipe:
            for line in pipe:
                lines.append(line.rstrip())
                state = how_far(line.rstrip()) or state

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        while (left := started + seconds - time.monotonic()) > 0:
            try:
                code = process.wait(min(_EVERY_SECONDS, left))
            except subprocess.TimeoutExpired:
                elapsed = f"{time.monotonic() - started:.0f} s"
                report(f"{title}: {state}, {elapsed}" if state else f"{title}: {elapsed}", None)
            else:
                reader.join(2)  # a service that an installation started may keep the pipe
                return Ended(code, "\n".join(lines))
        raise Failed(f"{title} did not end within {seconds:.0f} s", "look at the network and the disk, then try again")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
