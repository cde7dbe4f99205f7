"""The ledger's file: append-only events in SQLite.

The standard library's driver and not an ORM: every step is a process of its own, and one table needs no mapping.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from runcrate_iac.errors import Refused
from runcrate_iac.ledger.view import Entry, View, fold
from runcrate_iac.model.lifecycle import Happened, advance
from runcrate_iac.paths import private_dir, state_dir

SCHEMA_VERSION = 1
_SCHEMA = f"""
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    cluster TEXT NOT NULL,
    cluster_id TEXT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL CHECK (json_valid(data))
);
CREATE INDEX events_by_cluster ON events (cluster, seq);
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER events_never_go BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
PRAGMA user_version = {SCHEMA_VERSION};
"""
BUSY_SECONDS = 30


class Ledger:
    """The events of all clusters of one user on one computer."""

    def __init__(self, path: Path | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Open, or make, the ledger at ``path`` (default: the state folder); ``now`` is the clock of its events.

        Raises :class:`Refused` where the file was written by a newer version, is damaged, or can't be written.
        """
        self.now = now
        self.path = path or state_dir() / "ledger.db"
        try:
            private_dir(self.path.parent)
            self._db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            with self._write():
                version = self._db.execute("PRAGMA user_version").fetchone()[0]
                if version == 0:
                    for statement in _statements(_SCHEMA):
                        self._db.execute(statement)
        except (sqlite3.Error, OSError) as error:
            raise Refused(
                f"the ledger {self.path} can't be opened: {error}", "see that it is a readable file"
            ) from error
        if version > SCHEMA_VERSION:
            raise Refused(
                f"the ledger {self.path} was written by a newer version: schema {version}, known {SCHEMA_VERSION}",
                "upgrade runcrate-iac",
            )

    def entries(self, cluster: str | None = None, after: int = 0) -> list[Entry]:
        """All events after sequence number ``after``, of one cluster or of all, oldest first."""
        rows = self._db.execute(
            "SELECT seq, at, cluster, cluster_id, type, data FROM events "
            "WHERE seq > ? AND (? IS NULL OR cluster = ?) ORDER BY seq",
            (after, cluster, cluster),
        )
        names = ("seq", "at", "cluster", "cluster_id", "type")
        return [Entry(**dict(zip(names, row[:5], strict=True)), data=json.loads(row[5])) for row in rows]

    def clusters(self) -> list[str]:
        """The name of every cluster ever reserved."""
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

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _append(self, cluster: str, cluster_id: str, kind: StrEnum, data: dict[str, Any]) -> None:
        at = self.now().isoformat()
        self._db.execute(
            "INSERT INTO events (at, cluster, cluster_id, type, data) VALUES (?, ?, ?, ?, ?)",
            (at, cluster, cluster_id, str(kind), json.dumps(data, default=str)),
        )

    @contextmanager
    def _write(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """One complete SQL statement after another: ``executescript`` would end our transaction."""
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            yield part
            part = ""
