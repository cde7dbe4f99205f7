"""Every kind of fault of a provider: all machines come up, or none stays and the message says why (X8, C8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines import fleet
from runcrate_iac.machines.faulty import Faulty
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.machines.watch import CALL_SECONDS, Watch
from runcrate_iac.model.network import Machine
from runcrate_iac.model.spec import MachineSpec, parse
from tests.clock import Clock
from tests.cloud import Cloud

DEADLINE = 600.0


class Lab:
    """A cluster of 4 machines, its faults, and what was heard of it."""

    def __init__(self, folder: Path, clock: Clock, cloud: Cloud, *schedule: dict[str, Any]) -> None:
        """``schedule``: the faults as a spec declares them."""
        self.clock, self.cloud = clock, cloud
        self.known: list[str] = []
        self.told: list[str] = []
        spec = parse({"name": "demo", "nodes": 4, "faults": list(schedule)})
        self.provider = Faulty(cloud, spec.faults, folder / "faults.json", lambda: clock.now().timestamp())
        self.request = Reservation(
            cluster_id="demo-1",
            nodes=4,
            machine=MachineSpec(),
            authorized_keys=(),
            identity_file=folder / "key",
            deadline=DEADLINE,
        )

    def up(self, hidden: float = 0.0) -> tuple[Machine, ...]:
        """Bring all up; the machines."""
        work = fleet.bring_up(self.request, self.provider, DEADLINE, self._known, self._report, hidden=hidden)
        return self.clock.run(work)

    def fails(self) -> StepFailed:
        """Bring all up, which fails; why."""
        with pytest.raises(StepFailed) as error:
            self.up()
        return error.value

    def released(self) -> list[str]:
        """Release all; the ids that are left."""
        _, left = self.clock.run(
            fleet.release("demo-1", self.provider, self._report, hidden=self.provider.listing_delay)
        )
        return sorted(machine.id for machine in left)

    @property
    def alive(self) -> list[int]:
        """The nodes of the machines that the provider really has."""
        return sorted(made.index for made in self.cloud.alive)

    def _known(self, machine: Machine) -> None:
        self.known.append(machine.id)

    def _report(self, message: str, node: str | None) -> None:
        self.told.append(f"{self.clock.time():.1f} {node or ''} {message}")


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Time that passes at once."""
    with closing(Clock()) as found:
        yield found


@pytest.mark.parametrize("fault", [{"fault": "error", "status": 504}, {"fault": "dropped"}])
@pytest.mark.parametrize("listing_delay", [0.0, 20.0])
def test_a_machine_behind_a_lost_answer_is_adopted(
    tmp_path: Path, clock: Clock, fault: dict[str, Any], listing_delay: float
) -> None:
    """504, or a dropped connection, after the machine was made: it is found by its mark, none is made twice (F12)."""
    lab = Lab(
        tmp_path,
        clock,
        Cloud(clock, listing_delay=listing_delay),
        fault | {"call": "create", "node": "node-2", "done": True},
    )
    assert [machine.index for machine in lab.up()] == [0, 1, 2, 3]
    assert len(lab.cloud.made) == 4


def test_an_order_that_was_not_taken_is_placed_again(tmp_path: Path, clock: Clock) -> None:
    """500 three times, and nothing made: the fourth order makes the one machine (F12)."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "error", "call": "create", "node": "node-1", "times": 3})
    assert len(lab.up()) == len(lab.cloud.made) == 4


def test_a_machine_that_died_behind_a_lost_answer_is_known(tmp_path: Path, clock: Clock) -> None:
    """A machine without an answer that is dead when it is found is told of too: the receipt has it (F12, X1)."""
    dropped = {"fault": "dropped", "call": "create", "node": "node-1", "done": True}
    lab = Lab(tmp_path, clock, Cloud(clock), dropped, {"fault": "status_failed", "node": "node-1", "seconds": 0})
    assert len(lab.up()) == 4
    assert set(lab.known) == {made.id for made in lab.cloud.made}
    assert (len(lab.cloud.made), lab.alive) == (5, [0, 1, 2, 3])


def test_an_earlier_order_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    """A machine that an earlier attempt ordered, and that is not listed yet, is not made a second time (F12)."""
    lab = Lab(tmp_path, clock, Cloud(clock, listing_delay=20.0))
    clock.run(lab.cloud.create(lab.request, 2, lambda message, node: None))
    lab.up(hidden=20.0)
    assert len(lab.cloud.made) == 4


def test_a_machine_that_is_not_listed_yet_is_not_dead(tmp_path: Path, clock: Clock) -> None:
    """While the nodes join, a machine too young to be listed is not taken for dead; later it is (F16)."""
    lab = Lab(tmp_path, clock, Cloud(clock, listing_delay=20.0))
    machine = clock.run(lab.cloud.create(lab.request, 0, lambda message, node: None))
    other = machine.model_copy(update={"index": 1, "id": "vm-lost"})
    watch = Watch("demo-1", lab.cloud, (machine, other), hidden=20.0)
    assert clock.run(watch.look()) == []
    clock.run(asyncio.sleep(20))
    assert [failure.node for failure in clock.run(watch.look())] == ["node-1"]


def test_a_machine_too_many_is_released(tmp_path: Path, clock: Clock) -> None:
    """Where a provider made two machines for a node one is released before the others are taken for whole (F12)."""
    lab = Lab(tmp_path, clock, Cloud(clock, listing_delay=5.0))
    clock.run(lab.cloud.create(lab.request, 2, lambda message, node: None))  # by an attempt that died
    machines = lab.up()
    assert (len(lab.cloud.made), lab.alive) == (5, [0, 1, 2, 3])
    assert {machine.id for machine in machines} == {made.id for made in lab.cloud.alive}
    assert len(set(lab.known)) == 5


def test_a_machine_too_many_that_stays_ends_the_attempt(tmp_path: Path, clock: Clock) -> None:
    """A machine too many that can't be released is named, instead of being billed with the cluster (F12)."""
    lie = {"fault": "lie", "times": "always"}
    lab = Lab(tmp_path, clock, Cloud(clock, listing_delay=5.0), lie)
    clock.run(lab.cloud.create(lab.request, 2, lambda message, node: None))
    assert "node-2: vm-0 is one machine too many" in lab.fails().message
    assert clock.time() <= fleet.PROOF_SECONDS + 60


def test_a_machine_that_is_not_listed_yet_is_not_gone(tmp_path: Path, clock: Clock) -> None:
    """A machine that the list does not know for 60 s comes up all the same."""
    lab = Lab(tmp_path, clock, Cloud(clock, boot=90.0), {"fault": "not_listed", "node": "node-3", "seconds": 60})
    assert len(lab.up()) == 4


def test_a_failed_status_ends_the_wait_at_once(tmp_path: Path, clock: Clock) -> None:
    """The provider says `failed` after 15 s: the attempt ends within seconds, and names the node (F16)."""
    lab = Lab(tmp_path, clock, Cloud(clock, boot=300.0), {"fault": "status_failed", "node": "node-1", "seconds": 15})
    assert lab.fails().node == "node-1"
    assert clock.time() <= 15 + fleet.POLL
    assert (lab.released(), lab.alive) == ([], [])


@pytest.mark.parametrize("named", [False, True])
def test_a_machine_that_failed_is_made_anew(tmp_path: Path, clock: Clock, named: bool) -> None:
    """The attempt after a failed status has a new machine, and the fault does not happen to that one too."""
    failed = {"fault": "status_failed", "node": "node-1", "seconds": 5}
    lab = Lab(tmp_path, clock, Cloud(clock, named=named), failed)
    lab.fails()
    assert len(lab.up()) == 4
    assert [made.gone_at is None for made in lab.cloud.made if made.index == 1] == [False, True]


def test_a_rate_limit_is_kept(tmp_path: Path, clock: Clock) -> None:
    """After 429 the machine is not asked for before the time that the provider names."""
    lab = Lab(
        tmp_path,
        clock,
        Cloud(clock, boot=0.0),
        {"fault": "rate_limit", "call": "create", "node": "node-0", "retry_after": 45},
    )
    lab.up()
    assert [made.at for made in lab.cloud.made if made.index == 0] == [45.0]


@pytest.mark.parametrize("on", ["list", "delete"])
def test_a_rate_limit_is_kept_by_the_release(tmp_path: Path, clock: Clock, on: str) -> None:
    """After 429 the release waits the time that the provider names, too."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "rate_limit", "call": on, "retry_after": 45})
    clock.run(lab.provider.create(lab.request, 0, lambda message, node: None))
    assert (lab.released(), lab.alive) == ([], [])
    assert clock.time() >= 45


@pytest.mark.parametrize("done", [False, True])
def test_a_create_that_hangs_is_cut_off_at_the_deadline(tmp_path: Path, clock: Clock, done: bool) -> None:
    """A call that never returns is cut off at the deadline; the message says what was waited for, and of which node."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "hang", "call": "create", "node": "node-2", "done": done})
    error = lab.fails()
    assert (error.node, clock.time()) == ("node-2", DEADLINE + fleet.GRACE)
    assert "node-2: asking cloud for it" in error.message
    assert (lab.released(), lab.alive) == ([], [])


def test_a_list_that_hangs_is_asked_again(tmp_path: Path, clock: Clock) -> None:
    """A list without answer is cut off after 30 s and asked again."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "hang", "call": "list", "times": 2})
    assert len(lab.up()) == 4
    assert clock.time() < 3 * CALL_SECONDS


def test_one_address_for_two_machines_is_refused(tmp_path: Path, clock: Clock) -> None:
    """Two machines with one address are named, both of them."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "same_address", "node": "node-3", "of": "node-1"})
    assert "node-1 and node-3 have the same SSH address" in lab.fails().message


def test_a_wrong_address_is_told_as_it_was_declared(tmp_path: Path, clock: Clock) -> None:
    """The machine has the address of the schedule, which the join finds out."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "wrong_address", "node": "node-1", "address": "192.0.2.7"})
    assert lab.up()[1].host == "192.0.2.7"


def test_delete_errors_are_asked_again(tmp_path: Path, clock: Clock) -> None:
    """Delete answers 500 three times for each machine: all are gone, proved, within seconds (F14)."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "error", "call": "delete", "times": 12})
    lab.up()
    begun = clock.time()
    assert (lab.released(), lab.alive) == ([], [])
    assert clock.time() - begun < 10


def test_a_delete_that_lies_is_not_believed(tmp_path: Path, clock: Clock) -> None:
    """Delete says yes twice and the machine stays: it is asked again until the list proves it gone (F14)."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "lie", "node": "node-1", "times": 2})
    lab.up()
    assert (lab.released(), lab.alive) == ([], [])


def test_a_machine_that_stays_for_ever_is_left_over(tmp_path: Path, clock: Clock) -> None:
    """Where delete always lies the machine is left over by its id, within the time for the proof (F14)."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "lie", "node": "node-1", "times": "always"})
    up = lab.up()
    begun = clock.time()
    assert lab.released() == [up[1].id]
    assert lab.alive == [1]
    assert clock.time() - begun <= fleet.PROOF_SECONDS


@pytest.mark.parametrize("on", ["create", "list"])
def test_a_revoked_key_ends_the_attempt(tmp_path: Path, clock: Clock, on: str) -> None:
    """After 401 nothing is asked again: the attempt ends at once with the remedy."""
    revoked = {"fault": "revoked_key", "call": on}
    lost = {"fault": "dropped", "call": "create", "node": "node-0"}
    lab = Lab(tmp_path, clock, Cloud(clock), revoked, lost)
    error = lab.fails()
    assert "refuses our key: 401 Unauthorized" in error.message
    assert (error.remedy, clock.time() < 10) == ("renew the key", True)


def test_a_machine_that_cannot_come_up_ends_the_attempt(tmp_path: Path, clock: Clock) -> None:
    """An order that fails for good names its node, and the machine that there is all the same is released (C8)."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "failed", "node": "node-1", "done": True})
    assert lab.fails().node == "node-1"
    assert 1 in lab.alive
    assert (lab.released(), lab.alive) == ([], [])


def test_a_slow_machine_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    """A machine that takes 5 minutes to make comes up, and is told of every few seconds meanwhile."""
    lab = Lab(tmp_path, clock, Cloud(clock), {"fault": "slow", "call": "create", "node": "node-1", "seconds": 300})
    assert len(lab.up()) == 4
    assert sum("node-1 asking cloud for it (for" in told for told in lab.told) >= 25
