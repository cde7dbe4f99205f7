"""Pulumi's stack with another state folder than the one that made its cluster: nothing is taken for nothing, or new."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runcrate_iac.cli import main
from runcrate_iac.components.documents import pool_of
from runcrate_iac.errors import Refused
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.machines import __main__ as machines
from runcrate_iac.machines import pool
from runcrate_iac.machines.forgotten import judge
from runcrate_iac.machines.step import refuse_change
from runcrate_iac.model.base import Model
from runcrate_iac.model.documents import MachinesJob, Made, StepInput
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.money import FREE
from runcrate_iac.model.spec import parse
from runcrate_iac.paths import cluster_dir, write_atomic
from runcrate_iac.provision import __main__ as nodes
from runcrate_iac.steps import moved

OWNER = "organization/p/s"
URN = "urn:pulumi:s::p::runcrate:index:Cluster::demo"
SPEC = parse({"name": "demo", "nodes": 2})
JOB = MachinesJob(spec=SPEC, owner=OWNER, resource=URN)
MADE = Made(
    cluster_id="demo-1", resource=URN, deadline=datetime(2026, 1, 1, tzinfo=UTC), price_per_hour=FREE, machines=()
)
INPUT = StepInput(spec=SPEC, made=MADE)
Run = Callable[[Callable[[], None], str, Model], None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a step's process with this verb and document."""

    def main(step: Callable[[], None], verb: str, document: Model) -> None:
        monkeypatch.setattr(sys, "argv", ["step", verb])
        monkeypatch.setattr(sys, "stdin", io.StringIO(document.model_dump_json()))
        step()

    return main


def ended(owner: str, cluster_id: str) -> None:
    """A cluster of that name in this state folder, which is over."""
    facts = {"owner": owner, "spec": SPEC.model_dump(mode="json"), "price_per_hour": "5"}
    ledger = Ledger()
    ledger.record("demo", cluster_id, Happened.RESERVED, **facts, deadline="2026-01-01T00:25:00Z")
    ledger.record("demo", cluster_id, Happened.START_FAILED)
    ledger.record("demo", cluster_id, Happened.RELEASED)


@pytest.mark.parametrize(
    ("step", "verb", "document"),
    [
        (machines.main, "release", JOB),
        (machines.main, "update", JOB),
        (nodes.main, "leave", INPUT),
        (nodes.main, "software", INPUT),
    ],
)
@pytest.mark.parametrize("others", [False, True])
def test_what_another_folder_made_is_refused(
    run: Run, step: Callable[[], None], verb: str, document: Model, tmp_path: Path, *, others: bool
) -> None:
    """Destroy and update name the folder and both ways out, whatever this folder has of another stack (C7, X1)."""
    if others:
        ended("organization/p/other", "demo-9")
    with pytest.raises(Refused, match=f"demo was made with another state folder: {tmp_path}/state does") as error:
        run(step, verb, document)
    assert "RUNCRATE_IAC_HOME" in error.value.remedy
    assert f"pulumi state delete --target-dependents {URN}" in error.value.remedy
    assert Ledger().current("demo") is None


def test_a_stack_that_was_renamed_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusals name the command by which the cluster goes on under the new name; a destroy ends it too (C7)."""
    facts = {"owner": OWNER, "resource": URN, "spec": SPEC.model_dump(mode="json"), "price_per_hour": "5"}
    view = Ledger().record("demo", "demo-1", Happened.RESERVED, **facts, deadline="2126-01-01T00:25:00Z")
    renamed = "organization/p/prod"
    command = f"runcrate-iac moved demo {renamed}"
    with pytest.raises(Refused) as before_it_is_made:
        refuse_change(view, SPEC, renamed)
    with pytest.raises(Refused) as known_to_pulumi:
        run(machines.main, "update", JOB.model_copy(update={"owner": renamed}))
    assert command in before_it_is_made.value.remedy
    assert command in known_to_pulumi.value.remedy
    command_line(monkeypatch, *command.split())
    after = Ledger().current("demo")
    assert after
    refuse_change(after, SPEC, renamed)
    run(machines.main, "release", JOB)  # Pulumi has the old document
    assert Ledger().current("demo") is None


def test_another_stacks_name_is_not_taken_for_a_former_one() -> None:
    """Where neither project nor stack is called the same, nobody is told to take the cluster over (C7)."""
    assert moved("demo", "organization/p/dev", "acme/p/dev") != ""
    assert moved("demo", "organization/p/dev", "organization/runcrate-iac/demo") == ""


def test_a_pool_of_a_stack_that_was_renamed_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its mark, and with it its machines, under the stack's new name (C7)."""
    mark, after = recorded(), MachinesJob.model_validate_json(pool_of("lab", "organization/p/prod", {"nodes": 2}))
    with pytest.raises(Refused) as refusal:
        run(pool.main, "update", after)
    assert f"runcrate-iac moved {mark} organization/p/prod" in refusal.value.remedy
    command_line(monkeypatch, "runcrate-iac", "moved", mark, "organization/p/prod")
    assert pool.mark(after) == mark
    with pytest.raises(Refused, match="3 are running, 2 are asked"):
        pool.refuse_shrinking(after)


def recorded() -> str:
    """The mark of a pool called `lab`, of three machines, that this folder knows."""
    mark = pool.mark(MachinesJob(spec=parse({"name": "lab"}), owner=OWNER))
    write_atomic(cluster_dir(mark) / "pool", f"{OWNER}\n3\n")
    return mark


def command_line(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Run a command, which succeeds."""
    monkeypatch.setattr(sys, "argv", list(words))
    with pytest.raises(SystemExit, match="0"):
        main()


def test_a_repeated_destroy_is_no_error(run: Run) -> None:
    """What this folder has made and ended is ended again without a word (C7)."""
    ended(OWNER, "demo-1")
    run(machines.main, "release", JOB)
    run(nodes.main, "leave", INPUT)


def test_a_pool_whose_stack_is_gone_is_ended_by_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """`down` with the mark that `gc` shows ends a pool that no stack can end any more (C7, X1)."""
    mark = recorded()
    assert "--stack-gone" in judge(mark, lambda: None, pool.pools(), {})[0]
    command_line(monkeypatch, "runcrate-iac", "down", mark, "--stack-gone", "--yes")
    assert pool.pools() == {}


@pytest.mark.parametrize("verb", ["update", "release"])
def test_a_pool_that_another_folder_made_is_refused(run: Run, verb: str) -> None:
    """A pool is not made a second time beside the first, nor is its end believed (C7, X1)."""
    document = MachinesJob.model_validate_json(pool_of("lab", OWNER, {"nodes": 2}))
    with pytest.raises(Refused, match="pool lab was made with another state folder"):
        run(pool.main, verb, document)
