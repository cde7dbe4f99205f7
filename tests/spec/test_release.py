"""Release is proved by asking the provider, never believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.errors import Leftover
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines.fleet import PROOF_SECONDS
from runcrate_iac.machines.step import release
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Report
from tests.clock import Clock

MACHINES = [Machine(index=i, id=f"m{i}", host="127.0.0.1", port=2200 + i) for i in range(2)]


class Stubborn:
    """A provider that lists its machines until it has been asked to release each so many times."""

    name = "stubborn"
    listing_delay = 0.0

    def __init__(self, asks: int) -> None:
        """``asks``: releases of a machine until it is gone."""
        self.asks = {machine.id: asks for machine in MACHINES}

    async def list(self, cluster_id: str) -> Sequence[Machine]:  # noqa: ARG002
        """What is there still."""
        return [machine for machine in MACHINES if self.asks[machine.id] > 0]

    async def delete(self, machine: Machine, report: Report) -> None:  # noqa: ARG002
        """Count one more."""
        self.asks[machine.id] -= 1


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Time that passes at once."""
    with closing(Clock()) as found:
        yield found


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A ledger with one cluster whose join failed."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    found = Ledger(now=clock.now)
    data: dict[str, Any] = {"owner": "o/p/s", "spec": {"name": "demo", "nodes": 2}, "price_per_hour": "1"}
    found.record("demo", "demo-1", Happened.RESERVED, **data, deadline="2026-01-01T00:25:00+00:00")
    found.note("demo", "demo-1", Note.MACHINES, machines=[m.model_dump(mode="json") for m in MACHINES])
    found.record("demo", "demo-1", Happened.START_FAILED)
    return found


def released(ledger: Ledger, clock: Clock, asks: int) -> tuple[View, float]:
    """Release the cluster from a provider that needs so many asks; the view after it, and the seconds it took."""
    view = ledger.current("demo")
    assert view is not None
    provider: Any = Stubborn(asks)
    begun = clock.time()
    after = clock.run(release(view, provider, ledger, lambda message, node: None))
    return after, clock.time() - begun


def test_machines_that_go_at_once_are_proved_gone(ledger: Ledger, clock: Clock) -> None:
    """Each machine gets its proof, and the name is free (X1, C8)."""
    view, seconds = released(ledger, clock, asks=1)
    assert (view.gone, view.over, seconds) == (("m0", "m1"), True, 0)


def test_a_machine_that_lingers_is_asked_for_again(ledger: Ledger, clock: Clock) -> None:
    """The provider is asked until it lists nothing, a little slower each time: 0.5, 1 and 2 s (F14)."""
    view, seconds = released(ledger, clock, asks=4)
    assert view.over
    assert seconds == pytest.approx(3.5)


def test_what_is_not_gone_is_left_over_with_the_list(ledger: Ledger, clock: Clock) -> None:
    """Past the limit the error lists every machine, none is called gone, and the name stays taken (X1, F14)."""
    with pytest.raises(Leftover, match=r"node-0 \(m0\), node-1 \(m1\)"):
        released(ledger, clock, asks=1000)
    view = ledger.current("demo")
    assert view is not None
    assert (view.state, view.gone, view.released) == (State.FAILED, (), False)


def test_the_wait_for_the_proof_has_a_limit(ledger: Ledger, clock: Clock) -> None:
    """Waiting for the proof ends within its limit and one pause (F14)."""
    with pytest.raises(Leftover):
        released(ledger, clock, asks=1000)
    assert PROOF_SECONDS <= clock.time() <= PROOF_SECONDS + 10


def test_a_later_release_finishes(ledger: Ledger, clock: Clock) -> None:
    """After a left-over the same call again proves the rest (C8)."""
    with pytest.raises(Leftover):
        released(ledger, clock, asks=1000)
    assert released(ledger, clock, asks=1)[0].over
