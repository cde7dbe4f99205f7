"""The live news of a cluster: JSON lines in its folder, written by steps and followed by whoever watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from runcrate_iac.model.progress import Event, Mark, Step
from runcrate_iac.paths import cluster_dir, private_dir


def feed_path(cluster: str) -> Path:
    """The file of a cluster's news."""
    return cluster_dir(cluster) / "progress.jsonl"


class Feed:
    """Where one step tells its news: to the cluster's file, and to ``show``."""

    def __init__(self, cluster: str, step: Step, show: Callable[[Event], None] | None = None) -> None:
        """``show``: who else is told; default a line on standard error, which plain Pulumi shows."""
        self.step = step
        self._show = show or _to_stderr
        self.path = feed_path(cluster)
        with suppress(OSError):  # as in `emit`
            private_dir(self.path.parent)

    def report(self, message: str, node: str | None = None) -> None:
        """Tell what is going on."""
        self.tell(Mark.PROGRESS, message, node)

    def tell(self, mark: Mark, message: str, node: str | None = None) -> None:
        """Tell a piece of news of this kind."""
        self.emit(Event(time=datetime.now(UTC), step=self.step, mark=mark, message=message, node=node))

    def emit(self, event: Event) -> None:
        """Append the event; one write of one line, so that writers never mix. Work does not end for news."""
        with suppress(OSError):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, event.model_dump_json().encode() + b"\n")
            finally:
                os.close(descriptor)
        self._show(event)


def _to_stderr(event: Event) -> None:
    sys.stderr.write(line(event) + "\n")
    sys.stderr.flush()


def line(event: Event) -> str:
    """The event as one line for people."""
    where = f"{event.step} {event.node}" if event.node else str(event.step)
    return f"{where}: {event.message}"


def position(cluster: str) -> int:
    """The end of the file now, in bytes: what :func:`follow` starts from to see only what is new."""
    path = feed_path(cluster)
    return path.stat().st_size if path.exists() else 0


def follow(cluster: str, start: int, wait: Callable[[], bool]) -> Iterator[Event]:
    """The events after byte ``start``, as they come, until ``wait`` returns False; what is left then still comes.

    ``wait`` pauses a moment and says whether to go on. A line that is no event, torn by a full disk or written by
    a newer version, is passed over.
    """
    path = feed_path(cluster)
    going = True
    while going:
        going = wait()
        if not path.exists():
            continue
        with path.open("rb") as file:
            file.seek(start)
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                start += len(raw)
                try:
                    event = Event.model_validate_json(raw)
                except ValueError:
                    continue
                yield event
