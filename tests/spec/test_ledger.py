"""The ledger is append-only, and what it holds can be folded to the cluster as it is."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.errors import Refused
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.receipt import receipt
from runcrate_iac.ledger.view import Note
from runcrate_iac.model.lifecycle import Happened, State

RESERVED: dict[str, Any] = {
    "owner": "organization/p/s",
    "spec": {"name": "demo", "nodes": 2},
    "deadline": "2026-01-01T00:25:00+00:00",
    "price_per_hour": "7.20",
}
MACHINES = [{"index": i, "id": f"m{i}", "host": "127.0.0.1", "port": 2200 + i} for i in range(2)]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An empty ledger."""
    return Ledger(tmp_path / "ledger.db")


def reserve(ledger: Ledger, cluster_id: str = "demo-1") -> None:
    """Record the first event of a cluster."""
    ledger.record("demo", cluster_id, Happened.RESERVED, **RESERVED)


def test_another_process_sees_the_same_cluster(ledger: Ledger) -> None:
    """State is never only in memory: a second reader folds the same view (X6)."""
    reserve(ledger)
    ledger.record("demo", "demo-1", Happened.JOINED)
    assert Ledger(ledger.path).current("demo") == ledger.current("demo")


def test_an_impossible_event_is_not_written(ledger: Ledger) -> None:
    """An event that the table does not allow raises, and the ledger is as before (C4)."""
    reserve(ledger)
    before = ledger.entries("demo")
    with pytest.raises(ValueError, match="provisioning"):
        ledger.record("demo", "demo-1", Happened.CHECKED)
    assert ledger.entries("demo") == before


def test_events_can_be_neither_changed_nor_removed(ledger: Ledger) -> None:
    """The file itself refuses to change or delete an event (X6)."""
    reserve(ledger)
    with sqlite3.connect(ledger.path) as database:
        for statement in ("UPDATE events SET data = '{}'", "DELETE FROM events"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                database.execute(statement)
    database.close()


def test_a_name_is_taken_until_everything_is_released(ledger: Ledger) -> None:
    """A failed cluster keeps its name until the release is proved (C8)."""
    reserve(ledger)
    ledger.record("demo", "demo-1", Happened.START_FAILED)
    with pytest.raises(ValueError, match="already"):
        reserve(ledger, "demo-2")
    ledger.record("demo", "demo-1", Happened.RELEASED)
    assert ledger.current("demo") is None
    reserve(ledger, "demo-2")
    view = ledger.current("demo")
    assert view is not None
    assert (view.cluster_id, view.state) == ("demo-2", State.PROVISIONING)


def test_a_failed_attempt_costs_nothing(ledger: Ledger) -> None:
    """The receipt of a cluster that never joined lists every machine with its proof and cost 0 (X1, C8)."""
    reserve(ledger)
    ledger.note("demo", "demo-1", Note.ASKED, nodes=2)
    ledger.note("demo", "demo-1", Note.MACHINES, machines=MACHINES)
    ledger.record("demo", "demo-1", Happened.START_FAILED)
    for number in range(2):
        ledger.note("demo", "demo-1", Note.MACHINE_GONE, machine=f"m{number}", node=f"node-{number}", proof="asked")
    ledger.record("demo", "demo-1", Happened.RELEASED)
    found = receipt(ledger.entries("demo"), datetime.now(UTC))
    assert found is not None
    assert [(row.node, row.proof, str(row.cost)) for row in found.machines] == [
        ("node-0", "asked", "$0.00"),
        ("node-1", "asked", "$0.00"),
    ]
    assert found.all_gone


def test_a_machine_without_proof_is_never_called_gone(ledger: Ledger) -> None:
    """Where the provider was not asked the receipt says that not all is gone (X1)."""
    reserve(ledger)
    ledger.note("demo", "demo-1", Note.MACHINES, machines=MACHINES)
    found = receipt(ledger.entries("demo"), datetime.now(UTC))
    assert found is not None
    assert not found.all_gone


def test_a_newer_ledger_is_refused(ledger: Ledger) -> None:
    """A file written by a newer version is refused and left as it is (X6)."""
    with sqlite3.connect(ledger.path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(Refused, match="newer version"):
        Ledger(ledger.path)


def test_a_damaged_ledger_is_refused(tmp_path: Path) -> None:
    """A file that is no ledger is refused, naming it (X6)."""
    path = tmp_path / "ledger.db"
    path.write_text("not a database, but long enough to be taken for one" * 20)
    with pytest.raises(Refused, match=r"ledger\.db"):
        Ledger(path)


def test_every_loss_counts(ledger: Ledger) -> None:
    """A node lost while ready, and a machine lost while degraded, each make the steps run once more (C9)."""
    reserve(ledger)
    for happened in (Happened.JOINED, Happened.CHECKED, Happened.NODE_LOST):
        ledger.record("demo", "demo-1", happened)
    ledger.note("demo", "demo-1", Note.MACHINE_LOST, nodes=["node-1"])
    view = ledger.current("demo")
    assert view is not None
    assert (view.state, view.losses) == (State.DEGRADED, 2)
