"""The ledger's file: made in one piece or not at all, opened, and read from a copy where it can't be written."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from runcrate_iac.errors import Refused, StateDamaged
from runcrate_iac.ledger.trouble import SALVAGE, explaining
from runcrate_iac.ledger.view import Entry
from runcrate_iac.paths import private_dir

SCHEMA_VERSION = 1
"""A higher one where an older runcrate-iac could misread what events hold."""
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
ROWS = "SELECT seq, at, cluster, cluster_id, type, data FROM events"
BUSY_SECONDS = 30
SIDES = ("", "-wal", "-shm")
"""What SQLite adds to the name of a database for the files that belong to it."""


def connect(path: Path) -> sqlite3.Connection:
    """Open the ledger, made where there is none.

    Raises :class:`StateDamaged`, :class:`~runcrate_iac.errors.StateUnwritable`, and :class:`Refused` where it
    was written by a newer version.
    """
    with explaining(path):
        private_dir(path.parent)
        if not path.exists():
            _make(path)
        if path.stat().st_size == 0:
            raise StateDamaged(f"the ledger {path} is damaged: it is empty", SALVAGE)
        return _checked(path, _open(path))


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """A copy of the file and its write-ahead log in memory or on another disk, for as long as it is entered."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108
        for side in SIDES[:2]:
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{side}", Path(folder) / f"copy{side}")
        yield Path(folder) / "copy"


def read_copy(path: Path) -> sqlite3.Connection:
    """What the ledger holds now, in memory: for one that can't be written. Raises as :func:`connect`."""
    with explaining(path), copied(path) as copy, closing(_checked(path, _open(copy))) as source:
        found = sqlite3.connect(":memory:", isolation_level=None)
        source.backup(found)
        return found


def new(path: Path) -> sqlite3.Connection:
    """An empty ledger at ``path``, where there is no file yet."""
    made = sqlite3.connect(path, isolation_level=None)
    made.execute("PRAGMA journal_mode = WAL")
    made.executescript(_SCHEMA)
    return made


def insert(database: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    """Append events, each with the number it has, or the next one where that is 0."""
    rows = [(e.seq or None, e.at.isoformat(), e.cluster, e.cluster_id, e.type, json.dumps(e.data)) for e in entries]
    database.executemany(
        "INSERT INTO events (seq, at, cluster, cluster_id, type, data) VALUES (?, ?, ?, ?, ?, ?)", rows
    )


def entry(row: tuple[Any, ...]) -> Entry:
    """The event in one of :data:`ROWS`; raises :class:`ValueError` where it is none."""
    seq, at, cluster, cluster_id, kind, data = row
    known = {"seq": seq, "at": at, "cluster": cluster, "cluster_id": cluster_id, "type": kind}
    try:
        return Entry.model_validate(known | {"data": json.loads(data)})
    except TypeError as error:
        raise ValueError(error) from error


def remove(path: Path, sides: tuple[str, ...] = SIDES) -> None:
    """Remove the file and what belongs to it."""
    for side in sides:
        Path(f"{path}{side}").unlink(missing_ok=True)


def _make(path: Path) -> None:
    """Make it under another name first: a ledger that is there is whole, and an empty file is a damaged one."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new(part).close()
        with suppress(FileExistsError):  # two commands at once: the first one's holds
            path.hardlink_to(part)
    finally:
        remove(part)


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _checked(path: Path, database: sqlite3.Connection) -> sqlite3.Connection:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise Refused(
            f"the ledger {path} was written by a newer version: schema {version}, known {SCHEMA_VERSION}",
            "upgrade runcrate-iac",
        )
    database.execute(f"{ROWS} LIMIT 1")
    return database
