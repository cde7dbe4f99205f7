"""A cluster grows by whole sets of equal workers, each billed from its own moment, and never shrinks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.components import documents
from runcrate_iac.errors import Leftover, Refused, RuncrateError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.receipt import receipt
from runcrate_iac.ledger.view import Note
from runcrate_iac.machines import growth, replace, step
from runcrate_iac.model.growth import refusals
from runcrate_iac.model.lifecycle import Happened, State, after_step
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import parse
from runcrate_iac.provision import clock, preflight
from runcrate_iac.provision.growth import note_joined
from tests.clock import Clock
from tests.spec.test_preflight import SPEC, machine, network
from tests.world import World, quiet

SLURM: dict[str, Any] = {"name": "lab", "nodes": 2, "software": "slurm"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"software": "none"}, ["software: slurm is running, none is asked"]),
        ({"nodes": 4, "provider": "other"}, ["provider: local is running, other is asked"]),
        ({"nodes": 4, "machine": {"gpu": "A100"}}, ["machine.gpu: H100 is running, A100 is asked"]),
        ({"nodes": 4, "machine": {"gpus": 4}}, ["machine.gpus: 8 is running, 4 is asked"]),
        ({"nodes": 4}, []),
        ({"notify": ["me@example.org"]}, []),
    ],
)
def test_what_may_change_of_a_running_cluster(change: dict[str, Any], told: list[str]) -> None:
    """More workers of the same kind may come; another shape, provider or software is refused with the reason (C1)."""
    found = refusals(parse(SLURM), parse(SLURM | change), State.READY)
    assert [line.rpartition(": ")[0] for line in found] == told


def test_a_cluster_never_shrinks() -> None:
    """Fewer nodes are refused with the reason: a cluster ends whole (C7)."""
    (told,) = refusals(parse(SLURM | {"nodes": 4}), parse(SLURM | {"nodes": 3}), State.READY)
    assert told == "nodes: 4 is running, 3 is asked: a cluster ends whole, and no node of it ends alone (C7)"


@pytest.mark.parametrize("state", [State.PROVISIONING, State.INSTALLING, State.DEGRADED])
def test_only_a_ready_cluster_grows(state: State) -> None:
    """Workers are added to a cluster on which nothing else is to be done (X5)."""
    (told,) = refusals(parse(SLURM), parse(SLURM | {"nodes": 4}), state)
    assert f"this one is {state}" in told


def test_software_comes_to_a_cluster_that_had_none() -> None:
    """From none to a software is an install like the first one, and is not refused (C5)."""
    assert refusals(parse(SLURM | {"software": "none"}), parse(SLURM), State.READY) == []


@pytest.mark.parametrize("step_", [Step.MACHINES, Step.JOIN])
def test_workers_that_do_not_join_degrade_nothing(step_: Step) -> None:
    """The failure of machines or join while workers are added leaves a ready cluster ready (C8)."""
    assert after_step(State.READY, step_, ok=False, bare=False, growing=True) is None
    assert after_step(State.READY, step_, ok=False, bare=False) is Happened.NODE_LOST


def test_added_workers_are_judged_by_the_nodes_that_are_there() -> None:
    """Four new machines outvote neither the clocks nor the kind of the two old ones (C1, F6)."""
    new = {"cpus": 8, "offset": 600.0}
    told = {index: machine(index, **(new if index > 1 else {})) for index in range(6)}
    old = frozenset((0, 1))
    assert clock.corrections(told, old) == dict.fromkeys((2, 3, 4, 5), -600.0)
    named = {condition.node for condition in preflight.refusals(network(6), SPEC, told, old)}
    assert named == {"node-2", "node-3", "node-4", "node-5"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A ready cluster, on a computer of its own."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    with closing(Clock()) as ticking:
        found = World(tmp_path, ticking, listing_delay=5.0, lingers=3.0)
        yield found
        found.ledger.close()


def test_a_growth_asks_for_the_new_machines_only(world: World) -> None:
    """The old machines stay what they are; until they join, the new ones are no part of the cluster (C8, C11)."""
    before = world.view.machines
    made = world.reserve(4)
    assert [machine.index for machine in made.machines] == [0, 1, 2, 3]
    assert (world.view.machines, world.view.spec.nodes, world.view.state) == (before, 2, State.READY)
    assert (len(world.cloud.made), str(made.price_per_hour), str(world.view.price_per_hour)) == (4, "$10.00", "$5.00")


def test_a_worker_is_billed_from_the_moment_it_is_up(world: World) -> None:
    """Old machines pay from the common moment, added ones from their own, and the price changes with them (C11)."""
    world.pass_time(3600)
    made = world.reserve(3)
    note_joined(world.ledger, "lab", made.machines)
    joined = world.clock.now()
    world.pass_time(3600)
    old, _, added = world.rows()
    assert (added.billed_from, str(added.cost), str(world.view.price_per_hour)) == (joined, "$2.50", "$7.50")
    assert float(old.cost.usd) > 4.99
    assert (world.view.spec.nodes, len(world.view.machines), world.view.growth) == (3, 3, None)


def test_a_grown_cluster_is_ready_when_its_workers_have_what_the_others_have(world: World) -> None:
    """From the join on it is installing, so that a command that ends there leaves nothing that is called ready (C6)."""
    note_joined(world.ledger, "lab", world.reserve(3).machines)
    assert (world.view.spec.nodes, world.view.growth, world.view.state) == (3, None, State.INSTALLING)


def test_a_grown_cluster_without_software_is_ready_at_the_join(world: World) -> None:
    """Where nothing has to follow the join, the workers are ready with it (C5)."""
    given = [Machine(index=index, id=f"host-{index}", host=f"192.0.2.{index}") for index in range(3)]
    world.ledger.record("own", world.given(given[:2]).cluster_id, Happened.JOINED_BARE)
    note_joined(world.ledger, "own", world.given(given).machines)
    grown = world.ledger.latest("own")
    assert grown
    assert (grown.spec.nodes, grown.state) == (3, State.READY)


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"setup": "/srv/setup.sh"}, State.INSTALLING),
        ({"setup_timeout": 60}, State.READY),
        ({"join_timeout": 600}, State.READY),
    ],
)
def test_what_is_declared_and_not_installed_is_not_ready(world: World, change: dict[str, Any], state: State) -> None:
    """Another software or script makes a ready cluster installing before anything else is done for it (C6)."""
    world.declare(**change)
    assert world.view.state is state
    assert all(getattr(world.view.spec, field) == value for field, value in change.items())


def test_a_change_that_is_refused_is_not_declared(world: World) -> None:
    """Where a lost head stops the step, the spec of what runs stays, and nothing is installing (C19)."""
    lose(world, 0)
    before = world.view
    with pytest.raises(Refused, match="the head"):
        world.declare(setup="/srv/setup.sh")
    assert (world.view.spec, world.view.state) == (before.spec, before.state)


@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "failed", "node": "node-3", "done": True},
        {"fault": "error", "call": "create", "node": "node-2", "status": 500, "done": True, "times": "always"},
        {"fault": "status_failed", "node": "node-3", "seconds": 3},
    ],
    ids=lambda fault: fault["fault"],
)
def test_a_growth_that_fails_releases_the_new_machines_only(world: World, fault: dict[str, Any]) -> None:
    """The provider has the old machines and no other, the receipt proves it, and nothing of them is billed (C8, X1)."""
    with suppress(RuncrateError):  # a state that is found later ends the join instead
        world.reserve(4, fault)
    world.undo()
    assert world.alive() == ["node-0", "node-1"]
    assert (world.view.state, world.view.spec.nodes, world.view.growth) == (State.READY, 2, None)
    added = [row for row in world.rows() if row.node in ("node-2", "node-3")]
    assert len(added) >= 2
    assert all(row.gone_at and row.proof and row.cost.usd == 0 for row in added)
    assert [row.gone_at for row in world.rows() if row.node in ("node-0", "node-1")] == [None, None]


def test_workers_that_do_not_go_are_named_and_the_cluster_stays(world: World) -> None:
    """What is left of a growth is told by id, with a remedy that keeps the cluster; the next `up` ends it (F14)."""
    world.reserve(3, {"fault": "lie", "times": "always"})
    with pytest.raises(Leftover, match="still lists node-2") as error:
        world.undo()
    assert "down" not in error.value.remedy
    assert (world.alive(), world.view.state, bool(world.view.growth)) == (
        ["node-0", "node-1", "node-2"],
        State.READY,
        True,
    )
    world.clock.run(growth.undo(world.view, world.cloud, world.ledger, quiet, reason="it failed"))
    assert (world.alive(), world.view.growth) == (["node-0", "node-1"], None)


def test_an_undone_growth_makes_the_steps_run_again(world: World) -> None:
    """Pulumi keeps what a step was told: after an undoing all are told anew, so that the next growth is asked for."""
    before = world.view.losses
    world.reserve(3)
    world.undo()
    assert world.view.losses == before + 1
    assert [machine.index for machine in world.reserve(3).machines] == [0, 1, 2]


def test_a_pending_growth_makes_the_machines_step_run_again(world: World) -> None:
    """Where plain Pulumi was killed before it knew of new workers, the same program as before ends them (X2)."""
    spec = world.spec(2, [])
    before = documents.machines_document(spec, "o/p/s", None)
    world.reserve(4)
    document = documents.machines_document(spec, "o/p/s", None)
    assert document != before
    world.reserve(2)
    assert (world.alive(), world.view.growth) == (["node-0", "node-1"], None)
    assert documents.machines_document(spec, "o/p/s", None) == document, "and then it runs no more"


def test_a_pending_growth_is_taken_up_in_time_and_begun_anew_after_it(world: World) -> None:
    """Plain Pulumi goes on with the new machines until their deadline; then others come, as a lease ends those (X2)."""
    world.reserve(4)
    world.pass_time(200)
    world.reserve(4)
    assert len(world.cloud.made) == 4
    world.pass_time(30_000)
    world.reserve(4)
    assert [made.gone_at is None for made in world.cloud.made] == [True, True, False, False, True, True]
    assert world.view.growth
    assert world.view.growth.deadline > world.clock.now()


def test_down_in_the_middle_of_a_growth_releases_everything(world: World) -> None:
    """`down` ends old and new machines alike, and the receipt has all of them (C7, X1)."""
    world.reserve(4)
    world.clock.run(step.release(world.view, world.cloud, world.ledger, quiet))
    assert (world.alive(), world.view.over) == ([], True)
    assert [row.node for row in world.rows() if row.gone_at] == ["node-0", "node-1", "node-2", "node-3"]


def test_a_refused_growth_is_no_event(world: World) -> None:
    """Fewer nodes, or none the provider has, leave ledger and machines as they are (C7)."""
    before = world.ledger.entries("lab")
    grown = world.spec(3, [])
    with pytest.raises(Refused, match="another spec"):
        step.refuse_change(world.view, grown.model_copy(update={"provider": "other"}), "o/p/s")
    assert world.ledger.entries("lab") == before


def lose(world: World, index: int) -> Machine:
    """Delete a machine behind everybody's back; the provider lists it no more."""
    (machine,) = (one for one in world.view.machines if one.index == index)
    world.clock.run(world.cloud.delete(machine, quiet))
    world.pass_time(10)
    world.ledger.record("lab", world.view.cluster_id, Happened.NODE_LOST)
    return machine


def test_given_machines_are_as_the_program_says_now(world: World) -> None:
    """A growth of given machines takes an old one's new port with it (C22)."""
    given = [Machine(index=index, id=f"host-{index}", host=f"192.0.2.{index}") for index in range(3)]
    two = world.given(given[:2])
    world.ledger.record("own", two.cluster_id, Happened.JOINED_BARE)
    made = world.given([given[0].model_copy(update={"port": 2222}), *given[1:]])
    assert [machine.port for machine in made.machines] == [2222, 22, 22]


def test_a_machine_that_is_gone_for_good_is_replaced(world: World) -> None:
    """Another machine gets the node's name; the receipt ends the old one with its proof and bills the new one (X1)."""
    world.pass_time(3600)
    lost = lose(world, 1)
    made = world.reserve(2)
    note_joined(world.ledger, "lab", made.machines)
    world.pass_time(3600)
    old, new = (row for row in world.rows() if row.node == "node-1")
    assert (old.id, bool(old.proof), new.gone_at) == (lost.id, True, None)
    assert new.id != lost.id
    assert float(old.cost.usd) == pytest.approx(2.5, abs=0.02)
    assert str(new.cost) == "$2.50"


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_only_a_machine_that_joined_starts_again_from_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joins: bool, named: bool
) -> None:
    """One that its lease ended before it had joined is replaced: the lease would end it at each start (X2, X5)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    with closing(Clock()) as ticking:
        world = World(tmp_path, ticking, named=named)
        lose(world, 1)
        made = world.reserve(2)
        if joins:
            note_joined(world.ledger, "lab", made.machines)
        (replaced,) = (one for one in world.cloud.alive if one.index == 1)
        world.pass_time(30_000)
        replaced.stopped = True
        _, gone = ticking.run(replace.look(world.view, world.cloud, world.ledger))
        world.reserve(2)
        world.ledger.close()
    assert [machine.index for machine in gone] == ([] if joins else [1])
    assert ((replaced.gone_at is None), len(world.cloud.made)) == (joins, 3 if joins else 4)
    assert world.alive() == ["node-0", "node-1"]


def test_a_machine_may_get_the_id_of_the_one_it_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this computer a machine's id is its mark: both have a row in the receipt, and a bill of their own (X1)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    with closing(Clock()) as ticking:
        world = World(tmp_path, ticking, named=True)
        lost = lose(world, 1)
        note_joined(world.ledger, "lab", world.reserve(2).machines)
        world.pass_time(3600)
        old, new = (row for row in world.rows() if row.node == "node-1")
        world.ledger.close()
    assert (old.id, new.id, bool(old.gone_at), new.gone_at) == (lost.id, lost.id, True, None)
    assert str(new.cost) == "$2.50"


def test_a_lost_head_is_never_replaced_silently(world: World) -> None:
    """Without the user's word the step says what was on the head's disk, and asks for no machine (C19, C22)."""
    lose(world, 0)
    with pytest.raises(Refused, match="everything in /shared and Slurm's queue"):
        world.reserve(2)
    assert world.alive() == ["node-1"]
    replace.agree(world.view, world.ledger)
    assert len(world.reserve(2).machines) == 2
    assert not world.view.head_given_up


def test_the_price_in_old_ledgers_is_that_of_every_machine(tmp_path: Path) -> None:
    """A ledger from before growth folds: each machine's rate is its part of the whole price (X6)."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ledger = Ledger(tmp_path / "ledger.db", now=lambda: now)
    data = {"owner": "o", "spec": SLURM, "deadline": now.isoformat(), "price_per_hour": "5"}
    ledger.record("lab", "lab-1", Happened.RESERVED, **data)
    machines = [{"index": index, "id": f"m{index}", "host": "192.0.2.1"} for index in range(2)]
    ledger.note("lab", "lab-1", Note.MACHINES, machines=machines)
    ledger.record("lab", "lab-1", Happened.JOINED)
    found = receipt(ledger.entries("lab"), now + timedelta(hours=1))
    assert found
    assert [str(row.cost) for row in found.machines] == ["$2.50", "$2.50"]


def test_a_renamed_resource_takes_its_cluster_over(world: World) -> None:
    """Pulumi makes the new resource and then ends the old one, which must not be the end of the cluster (C7, X1)."""
    old, new = world.job("urn:train"), world.job("urn:trainer")
    for job in (old, new):
        world.clock.run(step.reserve(job, world.cloud, world.ledger, quiet))
        assert step.is_end_of(job, world.view)
    assert not step.is_end_of(old, world.view)
    renamed = new.model_copy(update={"spec": new.spec.model_copy(update={"name": "other"})})
    with pytest.raises(Refused, match="lab is ready, and a cluster's name can't become another one"):
        step.refuse_rename(renamed, world.ledger)
    step.refuse_rename(renamed.model_copy(update={"resource": "urn:train"}), world.ledger)
