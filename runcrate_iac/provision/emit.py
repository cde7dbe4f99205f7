"""The worker's standard output: protocol lines and nothing else."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from runcrate_iac.model.progress import Event, Mark, Outcome, Step
from runcrate_iac.provision.job import Line


class Emitter:
    """Writes events and the outcome to what was standard output; whatever else is printed goes to standard error."""

    def __init__(self, step: Step) -> None:
        """Take standard output away from everything else in the process, C libraries and child processes included."""
        self._step = step
        sys.stdout.flush()
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def event(self, mark: Mark, message: str, node: str | None = None) -> None:
        """Tell one piece of news, now."""
        event = Event(time=datetime.now(UTC), step=self._step, mark=mark, message=message, node=node)
        self._write(Line(event=event))

    def outcome(self, outcome: Outcome) -> None:
        """Tell how it ended; the last line."""
        last = "done" if outcome.ok else "failed"
        self.event(Mark.DONE if outcome.ok else Mark.FAILED, last)
        self._write(Line(outcome=outcome))

    def _write(self, line: Line) -> None:
        self._out.write(line.model_dump_json(exclude_none=True) + "\n")
        self._out.flush()
