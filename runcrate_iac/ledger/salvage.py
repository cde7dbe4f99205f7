"""A damaged ledger: kept aside as it is, and what can still be read of it put into a new one."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from runcrate_iac.errors import Refused, StateDamaged
from runcrate_iac.ledger import file
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.trouble import explaining
from runcrate_iac.ledger.view import Entry, Note, View, after
from runcrate_iac.model.base import Model
from runcrate_iac.paths import state_dir

SMALLEST_EVENT = 32
"""Bytes that an event takes at least: no file has a newer event than it has room for."""


class Salvaged(Model):
    """What became of a damaged ledger."""

    kept: Path
    """The damaged file, as it was."""
    events: dict[str, int]
    """How many events of each cluster name were saved."""
    left_out: int
    """Events that were read, but do not follow from those before them, since one of those is lost."""


def salvage(path: Path | None = None) -> Salvaged | None:
    """Put a new ledger in place of a damaged one; None where it is not damaged.

    Raises :class:`~runcrate_iac.errors.StateUnwritable` where there is no room for that, with nothing changed.
    """
    path = path or state_dir() / "ledger.db"
    if not path.exists() or not damaged(path):
        return None
    with explaining(path), _alone(path):
        if not damaged(path):  # another command has saved it
            return None
        kept = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        for side in file.SIDES:
            with suppress(FileNotFoundError):
                Path(f"{kept}{side}").hardlink_to(f"{path}{side}")
        found, left_out = consistent(readable(path))
        _replace(path, found, kept)
    names = sorted({entry.cluster for entry in found})
    counts = {name: sum(entry.cluster == name for entry in found) for name in names}
    return Salvaged(kept=kept, events=counts, left_out=left_out)


def readable(path: Path) -> list[Entry]:
    """Every event whose page is still whole, oldest first.

    ``writable_schema`` lets SQLite open a file that is shorter than its header says, and a read by number
    touches no page but the event's own.
    """
    with file.copied(path) as copy, closing(sqlite3.connect(copy)) as database:
        with suppress(sqlite3.Error):
            database.execute("PRAGMA writable_schema = ON")
        entries = []
        room = copy.stat().st_size // SMALLEST_EVENT
        for number in range(1, min(_newest(database), room) + 1):
            with suppress(sqlite3.Error, ValueError):
                row = database.execute(f"{file.ROWS} NOT INDEXED WHERE seq = ?", (number,)).fetchone()
                entries += [file.entry(row)] if row else []
        return entries


def consistent(entries: Sequence[Entry]) -> tuple[list[Entry], int]:
    """Those that can be folded, and how many can't be, since an event before them is lost."""
    views: dict[str, View | None] = {}
    kept = []
    for entry in entries:
        with suppress(Refused):
            view = after(views.get(entry.cluster), entry)
            if view is not None and entry.cluster_id == view.cluster_id:
                views[entry.cluster] = view
                kept.append(entry)
    return kept, len(entries) - len(kept)


def _newest(database: sqlite3.Connection) -> int:
    """The highest number that an event may have: where the pages lead to it, or by SQLite's own count."""
    highest = 0
    for query in (
        "SELECT seq FROM sqlite_sequence WHERE name = 'events'",
        "SELECT seq FROM events NOT INDEXED ORDER BY seq DESC LIMIT 1",
        "SELECT seq FROM events NOT INDEXED ORDER BY seq",
    ):
        with suppress(sqlite3.Error, TypeError):
            for (number,) in database.execute(query):
                highest = max(highest, number)
    return highest


def _replace(path: Path, entries: Sequence[Entry], kept: Path) -> None:
    """Put a ledger with these events where the damaged one is; that stays until the new one is whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with closing(file.new(part)) as made:
            made.execute("BEGIN")
            file.insert(made, entries)
            made.execute("COMMIT")
        ledger = Ledger(part)
        for cluster, cluster_id in {entry.cluster: entry.cluster_id for entry in entries}.items():
            ledger.note(cluster, cluster_id, Note.SALVAGED, kept=str(kept))
        ledger.close()
        file.remove(path, file.SIDES[1:])
        part.replace(path)
    finally:
        file.remove(part)


def damaged(path: Path | None = None) -> bool:
    """Whether a part of the ledger can't be read."""
    path = path or state_dir() / "ledger.db"
    try:
        ledger = Ledger(path)
        ledger.check()
        ledger.close()
    except StateDamaged:
        return True
    return False


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One salvage at a time: the second finds the new ledger."""
    descriptor = os.open(path.with_name(".salvage"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
