"""Waits that take no time: an event loop whose clock jumps to the next thing that is due."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class _Jumping(selectors.SelectSelector):
    """Instead of waiting it moves the clock on."""

    elapsed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.elapsed += timeout
        return super().select(None if timeout is None else 0)


class Clock(asyncio.SelectorEventLoop):
    """The loop, and the clock of everything that runs in it: ``now`` for ledgers, ``time`` for waits."""

    def __init__(self) -> None:
        """It is midnight on the first of January."""
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the start."""
        return self._jumping.elapsed

    def now(self) -> datetime:
        """The date and time."""
        return EPOCH + timedelta(seconds=self._jumping.elapsed)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns; cancelled tasks of it are ended too."""
        task = self.create_task(work)
        try:
            return self.run_until_complete(task)
        finally:
            for other in asyncio.all_tasks(self):
                other.cancel()
            self.run_until_complete(asyncio.sleep(0))
