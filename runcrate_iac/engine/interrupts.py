"""Ctrl-C once: orderly; twice: at once (F10). SIGTERM and a closed terminal count as Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

LEFT_AT_ONCE = 5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts interrupts while it is entered; ``asked`` says that the work is to end in order."""

    def __init__(self, cluster: str) -> None:
        """``cluster``: the name that the messages tell the user to `down`."""
        self.asked = False
        self.on_second: Callable[[], None] = lambda: None
        self._cluster = cluster
        self._before: dict[int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        """Take the signals over."""
        self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.asked:
            self.on_second()
            sys.stderr.write(f"\nleft at once; finish with: runcrate-iac down {self._cluster}\n")
            sys.stderr.flush()
            os._exit(LEFT_AT_ONCE)
        self.asked = True
        sys.stderr.write("\nrolling back, press again to leave now\n")
