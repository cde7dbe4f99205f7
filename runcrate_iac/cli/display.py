"""Live news of a cluster that is coming up: steps and nodes on a terminal, lines elsewhere, JSON for programs."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from runcrate_iac.ledger.feed import line
from runcrate_iac.model.progress import Event, Mark, Step

SIGN = {Mark.DONE: ("✓", "green"), Mark.FAILED: ("✗", "red")}


class Display:
    """Shows events as they come; a context manager, called with each event."""

    def __init__(self, *, as_json: bool) -> None:
        """With ``as_json`` every event is one JSON line on standard error."""
        console = Console(stderr=True, highlight=False)
        self._json = as_json
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal and not as_json else None
        self._steps: dict[Step, _StepRow] = {}
        self._begun: datetime | None = None

    def __enter__(self) -> Self:
        """Start the live view, where there is one."""
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the live view; what it shows stays on the screen."""
        if self._live:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        self._begun = self._begun or event.time
        with suppress(OSError):  # the terminal may be gone; the work goes on, or ends in order
            self._show(event, (event.time - self._begun).total_seconds())

    def _show(self, event: Event, seconds: float) -> None:
        if self._json:
            sys.stderr.write(event.model_dump_json() + "\n")
        elif self._live is None:
            sys.stderr.write(f"[{seconds:6.1f} s] {line(event)}\n")
        else:
            self._steps.setdefault(event.step, _StepRow(event.step)).take(event)
            self._live.update(Group(*(row.render() for row in self._steps.values())))
        sys.stderr.flush()


class _StepRow:
    """One step: its sign, its last message, and under it the last message of each node while it runs."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.mark = Mark.STARTED
        self.message = ""
        self.nodes: dict[str, str] = {}
        self.failures: list[str] = []
        self._spinner = Spinner("dots")

    def take(self, event: Event) -> None:
        if event.node and event.mark is Mark.FAILED:
            self.failures.append(event.message)
        elif event.node:
            self.nodes[event.node] = event.message
        else:
            self.mark = event.mark
            self.message = event.message

    def render(self) -> RenderableType:
        sign, style = SIGN.get(self.mark, ("", ""))
        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text(sign, style) if sign else self._spinner, Text(f"{self.step:9}", "bold"), Text(self.message))
        rows: list[RenderableType] = [grid]
        if not sign:
            rows += [Text(f"    {node:8} {message}", "dim") for node, message in sorted(self.nodes.items())]
        return Group(*rows, *(Text(f"    {failure}", "red") for failure in self.failures))
