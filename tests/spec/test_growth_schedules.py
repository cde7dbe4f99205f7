"""Whatever goes wrong while a cluster grows or is mended: it stays what it is, or becomes what was asked for."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import datetime
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, example, given, settings

from runcrate_iac.errors import Leftover, Refused, RuncrateError
from runcrate_iac.ledger.view import Note
from runcrate_iac.machines import fleet, growth, replace, step
from runcrate_iac.machines.watch import CALL_SECONDS
from runcrate_iac.model.documents import MachinesJob, Made
from runcrate_iac.model.faults import StatusFailed
from runcrate_iac.model.lifecycle import Happened, State, after_step
from runcrate_iac.model.network import node_name
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import parse
from runcrate_iac.provision.growth import note_joined
from tests.clock import Clock
from tests.cloud import Made as Machine
from tests.schedules import JOIN_TIMEOUT, Act, Growing, growing
from tests.spec.test_fault_schedules import EXAMPLES, World, ended, killed, living, nothing, whole
from tests.spec.test_fault_schedules import home as home  # noqa: PLC0414 - its fixture

NUMBERS = count()


class Grown(World):
    """A ready cluster, and what is true of it: which machine each node has, and since when."""

    def __init__(self, life: Growing, folder: Path, clock: Clock) -> None:
        """All machines are up and joined."""
        super().__init__(life, folder, clock)
        self.lingers = life.lingers
        made = self.up()
        assert isinstance(made, Made)
        self.ledger.record("lab", made.cluster_id, Happened.JOINED_BARE)
        self.head_given_up = False
        self.doomed: set[int] = set()
        """Nodes whose machine was lost, or may be said to have failed."""
        self.members: dict[int, Machine] = {}
        self.billed: list[tuple[Machine, datetime]] = []
        self._joined(made)

    def act(self, act: Act) -> str:
        """Do it, and look that it kept its deadlines; how it ended."""
        self.clock.run(asyncio.sleep(act.after))
        if act.loses is not None:
            self._lose(act.loses)
        fields = {"name": "lab", "nodes": self.view.spec.nodes + act.adds, "faults": act.faults}
        self.job = MachinesJob(spec=parse(fields | {"join_timeout": JOIN_TIMEOUT}), owner="o/p/s")
        said = [fault.node for fault in self.job.spec.faults if isinstance(fault, StatusFailed)]
        self.doomed |= {i for i in range(self.job.spec.nodes) if None in said or node_name(i) in said}
        begun = self.clock.time()
        try:
            return self._up(act)
        except Leftover:
            return "left over"
        except Refused:
            return "refused"
        finally:
            proof = fleet.PROOF_SECONDS + self.provider.listing_delay
            assert self.clock.time() - begun <= JOIN_TIMEOUT + fleet.GRACE + 2 * proof + 2 * CALL_SECONDS

    def _lose(self, index: int) -> None:
        """The node's machine goes, and is listed no more."""
        self.doomed.add(index)
        if self.members[index].gone_at is None:
            self.members[index].gone_at = self.clock.time()
        self.clock.run(asyncio.sleep(self.lingers))

    def _up(self, act: Act) -> str:
        """What a command does around the machines step."""
        if not act.plain:
            if self.view.growth:
                self._undo()
            self._notice_lost()
            step.refuse_change(self.view, self.job.spec, self.job.owner)
        try:
            made = self.clock.run(killed(step.reserve(self.job, self.provider, self.ledger, nothing), act.killed_after))
        except (Refused, Leftover):
            if self.view.growth:
                self._undo()
            raise
        except RuncrateError:
            self._failed(Step.MACHINES)
            return "machines failed"
        if made is None:
            return "killed"
        whole(self, made)
        living(self)
        if not act.joins:
            self._failed(Step.JOIN)
            return "join failed"
        self._joined(made)
        return "grown" if act.adds else "repaired"

    def _undo(self) -> None:
        view = self.view
        self.clock.run(growth.undo(view, self.provider, self.ledger, nothing, reason="it failed"))

    def _notice_lost(self) -> None:
        dead, gone = self.clock.run(replace.look(self.view, self.provider, self.ledger))
        if dead and self.view.state is State.READY:
            self.ledger.record("lab", self.view.cluster_id, Happened.NODE_LOST)
        elif dead:
            self.ledger.note("lab", self.view.cluster_id, Note.MACHINE_LOST, nodes=[one.node for one in dead])
        if any(machine.index == 0 for machine in gone):
            replace.agree(self.view, self.ledger)
            self.head_given_up = True

    def _failed(self, failed: Step) -> None:
        view = self.view
        if view.growth:
            self._undo()
        elif happened := after_step(view.state, failed, ok=False, bare=True):
            self.ledger.record("lab", view.cluster_id, happened, step=failed)

    def _joined(self, made: Made) -> None:
        note_joined(self.ledger, "lab", made.machines)
        if self.view.state is State.DEGRADED:
            self.ledger.record("lab", self.view.cluster_id, Happened.RECOVERED)
        for machine in self.cloud.alive:
            if (old := self.members.get(machine.index)) is not machine:
                assert old is None or machine.index or self.head_given_up, "a head is never replaced silently"
                self.members[machine.index] = machine
                self.billed.append((machine, self.clock.now()))


def as_told(world: Grown, how: str) -> None:
    """The provider's list, the ledger and what is true agree; a node that had no fault is what it was."""
    view, alive = world.view, world.cloud.alive
    assert view.spec.nodes == len(world.members)
    assert float(view.price_per_hour.usd) == 2.5 * len(world.members)
    nodes = {machine.index: machine.id for machine in view.machines}
    for index, machine in world.members.items():
        assert index in world.doomed or (machine.gone_at is None and nodes[index] == machine.id)
    if how in ("grown", "repaired"):
        assert sorted(machine.id for machine in alive) == sorted(machine.id for machine in view.machines)
        assert (view.growth, view.state) == (None, State.READY)
    if how not in ("killed", "left over"):
        assert view.growth is None
        assert all(machine.index in world.members for machine in alive), "added machines, and they only, are released"
        known = view.made.keys() - set(view.gone)
        assert all(machine.id in known for machine in alive if machine.index not in world.doomed)


def bill(world: Grown) -> None:
    """Each machine is billed from the moment when it became part of the cluster, and no other is (C11)."""
    rows = world.receipt.machines
    found = sorted((row.id, row.billed_from) for row in rows if row.billed_from)
    assert found == sorted((machine.id, moment) for machine, moment in world.billed)
    for row in rows:
        seconds = (row.gone_at - row.billed_from).total_seconds() if row.billed_from and row.gone_at else 0.0
        assert float(row.cost.usd) == pytest.approx(seconds * 2.50 / 3600, abs=1e-6)


NEXT = Act(after=0, loses=None, adds=0, faults=[], plain=True, killed_after=None, joins=True)
CLUSTER = Growing(nodes=2, boot=10, listing_delay=0, lingers=0, named=True, acts=[NEXT])
GROWTH_GIVEN_UP = [NEXT.model_copy(update={"adds": 2, "killed_after": 5}), NEXT]
"""Plain Pulumi was killed while workers were added, and its program declares none of them any more."""
NO_ANSWER = {"fault": "dropped", "call": "list", "times": 2}
LOST_UNSEEN = [NEXT.model_copy(update={"loses": 0, "faults": [NO_ANSWER], "plain": False})]
"""The head is gone, and the provider does not answer the first questions."""
LOST_AFTER_A_KILL = [
    NEXT.model_copy(update={"loses": 1, "killed_after": 5}),
    NEXT.model_copy(update={"loses": 0, "after": 60}),
]
"""A head that is lost while an order of another machine may still be hidden."""
LOST_WHILE_IT_GROWS = [NEXT.model_copy(update={"loses": 1, "adds": 1})]


@given(life=growing())
@example(life=CLUSTER.model_copy(update={"acts": GROWTH_GIVEN_UP}))
@example(life=CLUSTER.model_copy(update={"acts": LOST_UNSEEN}))
@example(life=CLUSTER.model_copy(update={"acts": LOST_AFTER_A_KILL, "listing_delay": 20}))
@example(life=CLUSTER.model_copy(update={"acts": LOST_WHILE_IT_GROWS}))
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
def test_a_cluster_that_grows_is_as_the_state_says(home: Path, life: Growing) -> None:
    """After any schedule the old machines are what they were, the others part of it or proved gone (C8, C11, X1)."""
    folder = home / f"growing-{next(NUMBERS)}"
    folder.mkdir()
    with closing(Clock()) as clock:
        world = Grown(life, folder, clock)
        try:
            for act in life.acts:
                how = world.act(act)
                event(how)
                as_told(world, how)
            left = world.released()
            ended(world, left)
            if left:
                assert world.released(world.cloud) is None, "the provider does nothing wrong any more"
                ended(world, None)
            bill(world)
        finally:
            world.ledger.close()
