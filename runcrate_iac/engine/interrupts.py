"""Ctrl-C once: orderly; twice: at once (F10). SIGTERM and a closed terminal count as the first one only.

Programs send several signals for one end: a shell whose terminal is closed sends SIGHUP to its jobs, and the kernel
sends it again when the shell exits; systemd ends a session by SIGTERM and SIGHUP (systemd.kill(5), SendSIGHUP=).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

LEFT_AT_ONCE = 5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts interrupts while it is entered; ``asked`` says that the work is to end in order."""

    def __init__(self, cluster: str, first: str) -> None:
        """``cluster``: what the user is told to `down`; ``first``: what the first interrupt leads to."""
        self.asked = False
        self._first = first
        self.on_second: Callable[[], None] = lambda: None
        self._cluster = cluster
        self._before: dict[int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        """Take the signals over."""
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # nohup(1)
        self._before = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.asked and number != signal.SIGINT:
            return
        if self.asked:
            self.on_second()
            _say(f"left at once; finish with: runcrate-iac down {self._cluster}")
            os._exit(LEFT_AT_ONCE)
        self.asked = True
        _say(f"{self._first}, press again to leave now")


def _say(message: str) -> None:
    with suppress(OSError):  # the terminal may be what went
        sys.stderr.write(f"\n{message}\n")
        sys.stderr.flush()
