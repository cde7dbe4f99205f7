"""Release is proved by asking the provider, never believed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.errors import Leftover
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines.step import PROOF_SECONDS, release
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Report

MACHINES = [Machine(index=i, id=f"m{i}", host="127.0.0.1", port=2200 + i) for i in range(2)]


class Stubborn:
    """A provider that lists its machines until it has been asked to release them so many times."""

    name = "stubborn"

    def __init__(self, asks: int) -> None:
        """``asks``: releases until they are gone."""
        self.asks = asks

    def list(self, cluster_id: str) -> Sequence[Machine]:  # noqa: ARG002
        """What is there still."""
        return MACHINES if self.asks > 0 else []

    def release(self, cluster_id: str, report: Report) -> None:  # noqa: ARG002
        """Count one more."""
        self.asks -= 1


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with one cluster whose join failed."""
    found = Ledger(tmp_path / "ledger.db")
    data: dict[str, Any] = {"owner": "o/p/s", "spec": {"name": "demo", "nodes": 2}, "price_per_hour": "1"}
    found.record("demo", "demo-1", Happened.RESERVED, **data, deadline="2026-01-01T00:25:00+00:00")
    found.note("demo", "demo-1", Note.MACHINES, machines=[m.model_dump(mode="json") for m in MACHINES])
    found.record("demo", "demo-1", Happened.START_FAILED)
    return found


def released(ledger: Ledger, asks: int) -> tuple[View, list[float]]:
    """Release the cluster from a provider that needs so many asks; the view after it, and the pauses."""
    pauses: list[float] = []
    view = ledger.current("demo")
    assert view is not None
    provider: Any = Stubborn(asks)
    return release(view, provider, ledger, lambda message, node: None, pauses.append), pauses


def test_machines_that_go_at_once_are_proved_gone(ledger: Ledger) -> None:
    """Each machine gets its proof, and the name is free (X1, C8)."""
    view, pauses = released(ledger, asks=1)
    assert (view.gone, view.over, pauses) == (("m0", "m1"), True, [])


def test_a_machine_that_lingers_is_asked_for_again(ledger: Ledger) -> None:
    """The provider is asked until it lists nothing, a little slower each time (F14)."""
    view, pauses = released(ledger, asks=4)
    assert view.over
    assert pauses == [0.5, 1.0, 2.0]


def test_what_is_not_gone_is_left_over_with_the_list(ledger: Ledger) -> None:
    """Past the limit the error lists every machine, none is called gone, and the name stays taken (X1, F14)."""
    with pytest.raises(Leftover, match=r"node-0 \(m0\), node-1 \(m1\)"):
        released(ledger, asks=1000)
    view = ledger.current("demo")
    assert view is not None
    assert (view.state, view.gone, view.released) == (State.FAILED, (), False)


def test_the_wait_for_the_proof_has_a_limit(ledger: Ledger) -> None:
    """Waiting for the proof ends within its limit (F14)."""
    pauses: list[float] = []
    view = ledger.current("demo")
    assert view is not None
    provider: Any = Stubborn(1000)
    with pytest.raises(Leftover):
        release(view, provider, ledger, lambda message, node: None, pauses.append)
    assert PROOF_SECONDS <= sum(pauses) <= PROOF_SECONDS + max(pauses)


def test_a_later_release_finishes(ledger: Ledger) -> None:
    """After a left-over the same call again proves the rest (C8)."""
    with pytest.raises(Leftover):
        released(ledger, asks=1000)
    assert released(ledger, asks=1)[0].over
