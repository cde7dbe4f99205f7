"""A ledger that is damaged, newer, full or read-only: told in plain words, and what is left of it is saved."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcrate_iac.errors import Refused, StateDamaged
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.salvage import consistent, salvage
from runcrate_iac.ledger.view import Entry, Note
from runcrate_iac.model.lifecycle import Happened, State

RESERVED: dict[str, Any] = {
    "owner": "organization/p/s",
    "spec": {"name": "demo", "nodes": 2},
    "deadline": "2026-01-01T00:25:00+00:00",
    "price_per_hour": "7.20",
}
EVENTS = 220
"""Enough for many pages of the file."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed ledger of two clusters; nobody writes to it."""
    path = tmp_path_factory.mktemp("whole") / "ledger.db"
    ledger = Ledger(path)
    for name in ("demo", "other"):
        ledger.record(name, f"{name}-1", Happened.RESERVED, **RESERVED)
    ledger.record("demo", "demo-1", Happened.JOINED)
    for number in range(EVENTS - 3):
        ledger.note("demo", "demo-1", Note.STEP_STARTED, step="check", number=number, text="x" * 200)
    ledger.close()
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copy(whole, tmp_path / "ledger.db"))


def told(path: Path) -> StateDamaged:
    """What a verb that reads the whole ledger is told."""
    with pytest.raises(StateDamaged) as error:
        Ledger(path).entries()
    return error.value


def test_a_truncated_ledger_is_told_with_its_remedy(path: Path) -> None:
    """A file cut in the middle is an error that names it, the fact and the verb that helps; it stays as it is (X6)."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    before = path.read_bytes()
    error = told(path)
    assert str(path) in error.message
    assert "damaged" in error.message
    assert "runcrate-iac gc" in error.remedy
    assert path.read_bytes() == before


def test_an_empty_ledger_is_damaged_and_not_new(path: Path) -> None:
    """A file of no bytes is not taken for a ledger without clusters (X6)."""
    path.write_bytes(b"")
    assert "empty" in told(path).message


def test_a_database_of_something_else_is_damaged(tmp_path: Path) -> None:
    """An SQLite file without our table is told, and no table is put into it (X6)."""
    with sqlite3.connect(tmp_path / "ledger.db") as database:
        database.execute("CREATE TABLE songs (title TEXT)")
    database.close()
    assert "events" in told(tmp_path / "ledger.db").message


def test_an_event_that_is_none_is_told(path: Path) -> None:
    """A row whose fields are no event's is told with its number (X6)."""
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO events (at, cluster, cluster_id, type, data) VALUES ('then', 'demo', 'demo-1', 'joined', '{}')"
        )
    database.close()
    assert f"event {EVENTS + 1}" in told(path).message


def test_what_a_newer_version_wrote_is_refused_by_event(path: Path) -> None:
    """Fields that this version does not know are refused, naming event, cluster and field; it is no traceback (X6)."""
    ledger = Ledger(path)
    machine = {"index": 0, "id": "m", "host": "h", "zone": "z"}
    ledger.note("demo", "demo-1", Note.MACHINES, machines=[machine])
    with pytest.raises(Refused, match=rf"event {EVENTS + 1} \(machines_up of demo\).*zone") as error:
        ledger.current("demo")
    assert "upgrade" in error.value.remedy
    assert ledger.current("other") is not None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_told_and_what_is_left_is_saved(whole: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Wherever a file is cut or overwritten, reading is right or told, and the salvaged ledger holds no wrong event.

    The damaged file is kept byte for byte (X6).
    """
    content = bytearray(whole.read_bytes())
    start = data.draw(st.integers(0, len(content) - 1), "start")
    if data.draw(st.booleans(), "cut"):
        del content[start:]
    else:
        content[start : start + data.draw(st.integers(1, 20_000), "length")] = b"\xa5" * 20_000
    for old in tmp_path.iterdir():
        old.unlink()
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    truth = Ledger(whole).entries()
    with suppress(StateDamaged):
        assert Ledger(path).entries() == truth
    saved = salvage(path)
    after = Ledger(path)
    after.check()
    events = [entry for entry in after.entries() if entry.type != Note.SALVAGED]
    assert all(entry in truth for entry in events)
    if saved is not None:
        assert saved.kept.read_bytes() == content
        assert sum(saved.events.values()) == len(events)
    else:
        assert events == truth


def test_most_of_a_truncated_ledger_is_saved(path: Path) -> None:
    """Of a ledger cut at two thirds the events before the cut are saved, in order, and the cluster is known (X6)."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    saved = salvage(path)
    assert saved is not None
    assert saved.events["demo"] > EVENTS // 3
    ledger = Ledger(path)
    view = ledger.current("demo")
    assert view is not None
    assert view.state is State.INSTALLING
    assert [entry.seq for entry in ledger.entries()] == sorted(entry.seq for entry in ledger.entries())
    assert ledger.entries("demo")[-1].data["kept"] == str(saved.kept)
    assert salvage(path) is None


def test_a_lost_event_leaves_a_cluster_that_can_be_released(whole: Path) -> None:
    """Where the join's event is lost, those that need it are left out, and the cluster can still be ended (X6, C7)."""
    entries = Ledger(whole).entries()
    checked = Entry.model_validate(entries[2].model_dump() | {"seq": EVENTS + 1, "type": "checked"})
    kept, left_out = consistent([entry for entry in [*entries, checked] if entry.type != Happened.JOINED])
    assert left_out == 1
    assert checked not in kept


def test_a_healthy_ledger_is_left_alone(path: Path) -> None:
    """Nothing is done to a ledger that is whole, or that a newer version wrote (X6)."""
    assert salvage(path) is None
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(Refused, match="newer"):
        salvage(path)
    assert sorted(file.name for file in path.parent.glob("*damaged*")) == []
