"""Long child processes with a deadline and signs of life."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Self

from runcrate_iac.errors import Failed
from runcrate_iac.model.progress import Report

_EVERY_SECONDS = 4
_KEPT_LINES = 30


class Stage:
    """One child process at a time, watched: reports at least every four seconds, killed at its deadline."""

    def __init__(self, title: str, report: Report, *, seconds: float) -> None:
        """``seconds`` is the time that all its processes have together."""
        self._title = title
        self._report = report
        self._started = time.monotonic()
        self._deadline = self._started + seconds
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        """The newest lines of the process's standard error."""

    def __enter__(self) -> Self:
        self._report(self._title, None)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, process: subprocess.Popen[str], on_line: Callable[[str], str | None] | None = None) -> int:
        """The exit code. ``on_line`` gets each line of standard error and returns how far things are, or None."""
        state = ""

        def read() -> None:
            nonlocal state
            for line in process.stderr or ():
                self.last_lines.append(line.rstrip())
                state = (on_line and on_line(line.rstrip())) or state

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            while (left := self._deadline - time.monotonic()) > 0:
                try:
                    code = process.wait(min(_EVERY_SECONDS, left))
                except subprocess.TimeoutExpired:
                    elapsed = f"{time.monotonic() - self._started:.0f} s"
                    self._report(f"{self._title}: {state}, {elapsed}" if state else f"{self._title}: {elapsed}", None)
                else:
                    reader.join()
                    return code
            waited = f"{self._deadline - self._started:.0f} s"
            raise Failed(
                f"{self._title} did not end within {waited}", "look at the network and the disk, then try again"
            )
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
