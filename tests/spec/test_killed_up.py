"""A start that was killed: the next one goes on with its machines in time, and begins anew past their deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runcrate_iac.components.documents import machines_document
from runcrate_iac.errors import StepFailed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.machines import step
from runcrate_iac.machines.keypair import cluster_key
from runcrate_iac.model.documents import MachinesJob, Made
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.spec import parse
from tests.clock import Clock
from tests.cloud import Cloud

OWNER = "organization/p/s"
SPEC = parse({"name": "demo", "nodes": 2, "join_timeout": 300})


def quiet(message: str, node: str | None) -> None:
    """No news."""


class Plain:
    """A cluster as plain Pulumi brings it up, which looks at nothing before it runs the machines step."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is reserved."""
        self.clock, self.cloud = clock, Cloud(clock)
        self.ledger = Ledger(now=clock.now)

    def reserve(self) -> Made:
        """The machines step; nothing comes after it."""
        return self.clock.run(step.reserve(MachinesJob(spec=SPEC, owner=OWNER), self.cloud, self.ledger, quiet))


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plain]:
    """A computer on which no cluster is known."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    with closing(Clock()) as clock:
        found = Plain(clock)
        yield found
        found.ledger.close()


def test_in_time_the_next_start_goes_on(plain: Plain) -> None:
    """What was reserved is taken up as long as it may still join (C4)."""
    made = plain.reserve()
    plain.clock.run(asyncio.sleep(200))
    assert plain.reserve().cluster_id == made.cluster_id
    assert len(plain.cloud.made) == 2


def test_past_the_deadline_the_next_start_begins_anew(plain: Plain) -> None:
    """The old machines are released and proved gone, others are made, and they have their whole time (C8, X2)."""
    made, key = plain.reserve(), cluster_key("demo").read_text()
    plain.clock.run(asyncio.sleep(30_000))
    again = plain.reserve()
    assert again.cluster_id != made.cluster_id
    assert {machine.cluster_id for machine in plain.cloud.alive} == {again.cluster_id}
    assert again.deadline > plain.clock.now() + timedelta(seconds=200)
    assert cluster_key("demo").read_text() != key
    happened = [entry.type for entry in plain.ledger.entries("demo") if entry.type in list(Happened)]
    assert happened == [Happened.RESERVED, Happened.START_FAILED, Happened.RELEASED, Happened.RESERVED]


def test_a_start_that_fails_in_time_is_told_as_it_is(plain: Plain) -> None:
    """A machine that needs longer than the deadline is not taken for one that a killed command left (C8)."""
    plain.cloud._boot = 400.0
    with pytest.raises(StepFailed, match="not up after 300 s"):
        plain.reserve()
    view = plain.ledger.latest("demo")
    assert view
    assert view.state is State.PROVISIONING, "its process gives it up"


def test_pulumi_runs_the_machines_step_of_a_missed_start_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Pulumi had the machines and was killed in the join, the step is told anew, once (X2)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    now = datetime.now(UTC)
    with closing(Ledger()) as ledger:

        def reserved(cluster_id: str, deadline: datetime) -> str:
            facts = {"owner": OWNER, "spec": SPEC.model_dump(mode="json"), "price_per_hour": "5"}
            ledger.record("demo", cluster_id, Happened.RESERVED, **facts, deadline=deadline.isoformat())
            return machines_document(SPEC, OWNER, None)

        fresh = machines_document(SPEC, OWNER, None)
        missed = reserved("demo-1", now - timedelta(seconds=1))
        assert missed != fresh
        ledger.record("demo", "demo-1", Happened.START_FAILED)
        ledger.record("demo", "demo-1", Happened.RELEASED)
        assert reserved("demo-2", now + timedelta(hours=1)) == missed, "and then it runs no more"
