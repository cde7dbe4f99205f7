"""The ledger: append-only events in SQLite.

The standard library's driver and not an ORM: every step is a process of its own, and one table needs no mapping.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from runcrate_iac.errors import StateDamaged, StateUnwritable
from runcrate_iac.ledger import file
from runcrate_iac.ledger.trouble import MAKE_ROOM, SALVAGE, explaining
from runcrate_iac.ledger.view import Entry, View, fold
from runcrate_iac.model.lifecycle import Happened, advance
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import state_dir


class Ledger:
    """The events of all clusters of one user on one computer.

    Every method raises :class:`StateDamaged` where the file can't be understood, and those that write
    :class:`StateUnwritable` where the disk is full or read-only; what is there can be read even then.
    """

    def __init__(self, path: Path | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Open, or make, the ledger at ``path`` (default: the state folder); ``now`` is the clock of its events.

        Raises :class:`~runcrate_iac.errors.Refused` where it was written by a newer version.
        """
        self.now = now
        self.path = path or state_dir() / "ledger.db"
        self._waiting: list[Entry] = []
        self._keeping: Report | None = None
        self._why = ""
        self._copied = False
        try:
            self._db = file.connect(self.path)
        except StateUnwritable:
            if not self.path.exists():
                raise
            self._db = file.read_copy(self.path)
            self._copied = True

    def entries(self, cluster: str | None = None, after: int = 0) -> list[Entry]:
        """All events after sequence number ``after``, of one cluster or of all, oldest first."""
        with explaining(self.path):
            rows = self._db.execute(
                f"{file.ROWS} WHERE seq > ? AND (? IS NULL OR cluster = ?) ORDER BY seq",
                (after, cluster, cluster),
            ).fetchall()
        waiting = [entry for entry in self._waiting if cluster in (None, entry.cluster)]
        return [self._entry(row) for row in rows] + waiting

    def clusters(self) -> list[str]:
        """The name of every cluster ever reserved."""
        with explaining(self.path):
            return [row[0] for row in self._db.execute("SELECT DISTINCT cluster FROM events ORDER BY cluster")]

    def latest(self, cluster: str) -> View | None:
        """The newest incarnation of that name, ended or not."""
        return fold(self.entries(cluster))

    def current(self, cluster: str) -> View | None:
        """The living incarnation of that name; None where the name is free."""
        view = self.latest(cluster)
        return None if view is None or view.over else view

    def record(self, cluster: str, cluster_id: str, happened: Happened, **data: Any) -> View:
        """Append an event that moves the cluster's state, checked against the lifecycle's table.

        Raises :class:`ValueError`, with nothing written, where the state does not allow it.
        """
        with self._write():
            view = self.latest(cluster)
            if happened is Happened.RESERVED:
                if view is not None and not view.over:
                    msg = f"{cluster} is {view.state} already"
                    raise ValueError(msg)
            elif view is None or view.cluster_id != cluster_id:
                msg = f"{cluster} has no cluster {cluster_id}"
                raise ValueError(msg)
            else:
                advance(view.state, happened)
            self._append(cluster, cluster_id, happened, data)
            after = self.latest(cluster)
        if after is None:
            msg = f"{cluster} has no events after one was written"
            raise RuntimeError(msg)
        return after

    def note(self, cluster: str, cluster_id: str, kind: StrEnum, **data: Any) -> None:
        """Append an event that leaves the state as it is."""
        with self._write():
            self._append(cluster, cluster_id, kind, data)

    def notes(self, cluster: str, cluster_id: str, *events: tuple[StrEnum, dict[str, Any]]) -> None:
        """Append several such events, all or none."""
        with self._write():
            for kind, data in events:
                self._append(cluster, cluster_id, kind, data)

    def check(self) -> None:
        """Read the whole file.

        Raises :class:`StateDamaged` where a part of it can't be read.
        """
        with explaining(self.path):
            found = [row[0] for row in self._db.execute("PRAGMA integrity_check(1)")]
        if found != ["ok"]:
            raise StateDamaged(f"the ledger {self.path} is damaged: {found[0]}", SALVAGE)
        self.entries()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def keeping(self, report: Report) -> Iterator[None]:
        """For what must go on, a release: an event that can't be written is kept, and written with a later one.

        Raises :class:`StateUnwritable`, where the work itself raised nothing, if some are not written at its end.
        """
        self._keeping, self._why = report, ""
        try:
            yield
        except BaseException:
            self._last_try()
            raise
        else:
            if unwritten := self._last_try():
                raise unwritten
        finally:
            self._keeping = None
            self._waiting.clear()

    def _last_try(self) -> StateUnwritable | None:
        with self._write():
            pass
        if not self._waiting:
            return None
        kept = ", ".join(dict.fromkeys(entry.type for entry in self._waiting))
        return StateUnwritable(f"done, but not noted: {kept}: {self._why}", MAKE_ROOM)

    def _append(self, cluster: str, cluster_id: str, kind: StrEnum, data: dict[str, Any]) -> None:
        """Take the event up; the end of :meth:`_write` writes it."""
        plain = json.loads(json.dumps(data, default=str))
        at = self.now()
        self._waiting.append(Entry(seq=0, at=at, cluster=cluster, cluster_id=cluster_id, type=str(kind), data=plain))

    @contextmanager
    def _write(self) -> Iterator[None]:
        """Keep other writers out; what was taken up is written at the end, all or nothing."""
        before = len(self._waiting)
        try:
            with self._unless_keeping():
                self._begin()
            yield
            with self._unless_keeping():
                self._store()
        except BaseException:
            del self._waiting[before:]
            raise
        finally:
            if self._db.in_transaction:
                self._db.rollback()

    @contextmanager
    def _unless_keeping(self) -> Iterator[None]:
        try:
            with explaining(self.path):
                yield
        except StateUnwritable as error:
            if self._keeping is None:
                raise
            if not self._why:  # the first one
                self._keeping(f"{error.message}; going on without it", None)
            self._why = error.message

    def _begin(self) -> None:
        if self._copied:
            self._db = file.connect(self.path)
            self._copied = False
        self._db.execute("BEGIN IMMEDIATE")

    def _store(self) -> None:
        if not self._db.in_transaction:
            return
        file.insert(self._db, self._waiting)
        self._db.execute("COMMIT")
        self._waiting.clear()

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        try:
            return file.entry(row)
        except ValueError as error:
            raise StateDamaged(f"the ledger {self.path} is damaged: its event {row[0]} is none", SALVAGE) from error
