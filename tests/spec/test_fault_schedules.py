"""Whatever a provider does wrong: the machines are as the state says, the bill is right, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings

from runcrate_iac.errors import Leftover, RuncrateError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.receipt import receipt
from runcrate_iac.ledger.view import View
from runcrate_iac.machines import fleet, gone, step
from runcrate_iac.machines.faulty import Faulty
from runcrate_iac.machines.provider import Provider
from runcrate_iac.machines.watch import Watch
from runcrate_iac.model.documents import MachinesJob, Made
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.network import plan
from runcrate_iac.model.receipt import Receipt
from runcrate_iac.model.spec import parse
from tests.clock import Clock
from tests.cloud import Cloud
from tests.schedules import JOIN_TIMEOUT, Growing, Life, lives

EXAMPLES = 1000 if settings().max_examples > 100 else 100
"""A thousand in a rehearsal."""
NUMBERS = count()


class World:
    """One cluster, its provider and its ledger; each command is a provider object of its own, as in a new process."""

    def __init__(self, life: Life | Growing, folder: Path, clock: Clock) -> None:
        """Nothing is made yet."""
        self.clock, self.folder = clock, folder
        self.cloud = Cloud(clock, life.boot, life.listing_delay, life.lingers, named=life.named)
        self.ledger = Ledger(folder / "ledger.db", now=clock.now)
        faults = life.faults if isinstance(life, Life) else []
        fields = {"name": "lab", "nodes": life.nodes, "faults": faults, "join_timeout": JOIN_TIMEOUT}
        self.job = MachinesJob(spec=parse(fields), owner="o/p/s")

    @property
    def provider(self) -> Faulty:
        """The provider as a new process finds it."""
        epoch = lambda: self.clock.now().timestamp()  # noqa: E731
        return Faulty(self.cloud, self.job.spec.faults, self.folder / "faults.json", epoch)

    @property
    def view(self) -> View:
        """The cluster as the ledger tells it."""
        view = self.ledger.latest("lab")
        assert view
        return view

    @property
    def hidden(self) -> float:
        """Seconds for which a machine may not be listed yet."""
        return gone.hidden(self.view, self.provider, self.clock.now())

    @property
    def receipt(self) -> Receipt:
        """Its receipt."""
        found = receipt(self.ledger.entries("lab"), self.clock.now())
        assert found
        return found

    def up(self, killed_after: float | None = None) -> Made | RuncrateError | None:
        """The machines step: what it made, why it failed; None where it was killed. It keeps the deadline."""
        begun = self.clock.time()
        work = step.reserve(self.job, self.provider, self.ledger, nothing)
        try:
            return self.clock.run(killed(work, killed_after))
        except RuncrateError as error:
            return error
        finally:
            assert self.clock.time() <= max(begun, JOIN_TIMEOUT) + fleet.GRACE

    def released(self, provider: Provider | None = None) -> Leftover | None:
        """Release all, as a rollback or `down` does; it keeps the time for the proof. What could not be proved."""
        source = provider or self.provider
        limit = self.clock.time() + fleet.PROOF_SECONDS + source.listing_delay
        try:
            if self.view.state is State.PROVISIONING:
                self.clock.run(step.give_up(self.view, source, self.ledger, nothing, reason="it failed"))
            else:
                self.clock.run(step.release(self.view, source, self.ledger, nothing))
        except Leftover as error:
            return error
        finally:
            assert self.clock.time() <= limit
        return None


async def killed(work: Coroutine[Any, Any, Made], after: float | None) -> Made | None:
    """What the work returns; None where it was ended before."""
    task = asyncio.create_task(work)
    if after is not None:
        asyncio.get_running_loop().call_later(after, task.cancel)
    with suppress(asyncio.CancelledError):
        return await task
    return None


def nothing(message: str, node: str | None) -> None:
    """Say nothing of it."""


def whole(world: World, made: Made) -> None:
    """The provider has exactly these machines, one for each node, each with an address of its own."""
    assert sorted(machine.index for machine in made.machines) == list(range(world.job.spec.nodes))
    assert sorted(alive.id for alive in world.cloud.alive) == sorted(machine.id for machine in made.machines)
    assert len(plan(made.machines).nodes) == world.job.spec.nodes


def living(world: World) -> None:
    """No machine is taken for dead that lives, however young it is."""
    watch = Watch(world.view.cluster_id, world.provider, world.view.machines, world.hidden)
    dead = world.clock.run(watch.look())
    said = [fault.node for fault in world.job.spec.faults if fault.fault == "status_failed"]
    assert all(failure.node in said or None in said for failure in dead)


def ended(world: World, left: Leftover | None) -> None:
    """All is released and proved; or what is left is known, named, and not called gone."""
    rows = {row.id: row for row in world.receipt.machines}
    if left is None:
        assert (world.view.released, world.cloud.alive) == (True, [])
        assert world.receipt.all_gone
        assert {made.id for made in world.cloud.made} == rows.keys() - {""}
        assert all(row.proof for row in rows.values())
    else:
        assert (world.view.released, world.receipt.all_gone, left.exit_code) == (False, False, 5)
        for alive in world.cloud.alive:
            assert alive.id not in world.view.gone
            assert alive.id in rows or "can't be asked" in left.message or "has not answered" in left.message


def bill(world: World, joined: Sequence[str]) -> None:
    """Each machine that joined is billed from the common moment to its end, and no other machine at all (F37)."""
    for row in world.receipt.machines:
        billed = 0.0
        if row.id in joined:
            assert world.view.joined_at
            assert row.gone_at
            billed = (row.gone_at - world.view.joined_at).total_seconds()
        assert float(row.cost.usd) == pytest.approx(billed * 2.50 / 3600, abs=1e-6)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A state folder, in memory where there is such a disk: a thousand ledgers are synced to it, event by event."""
    memory = Path("/dev/shm")  # noqa: S108
    with (
        TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RUNCRATE_IAC_HOME", folder)
        yield Path(folder)


TWO_UPS = Life(
    nodes=2,
    faults=[{"fault": "slow", "call": "create", "seconds": 7}],
    boot=0,
    listing_delay=5,
    lingers=0,
    named=False,
    killed_after=None,
    again=True,
    joins=False,
)
"""The second `up`, or `down`, begins before the first one's machines are listed."""


@given(life=lives())
@example(life=TWO_UPS)
@example(life=TWO_UPS.model_copy(update={"again": False}))
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
def test_the_machines_are_as_the_state_says(home: Path, life: Life) -> None:
    """After any schedule the provider's list equals the state, the receipt is complete and the bill 0 (X1, X8, C8)."""
    folder = home / str(next(NUMBERS))
    folder.mkdir()
    with closing(Clock()) as clock:
        world = World(life, folder, clock)
        try:
            live(world, life)
        finally:
            world.ledger.close()


def live(world: World, life: Life) -> None:
    """Live that life, and look after every step that all is as it must be."""
    joined: list[str] = []
    made = world.up(life.killed_after)
    if life.again and (made is None or isinstance(made, Made)):
        made = world.up()
    if isinstance(made, Made):
        whole(world, made)
        living(world)
        if life.joins:
            joined = [machine.id for machine in made.machines]
            world.ledger.record("lab", made.cluster_id, Happened.JOINED_BARE)
            world.clock.run(asyncio.sleep(1000))
    event("up" if isinstance(made, Made) else "killed" if made is None else "failed")
    left = world.released()
    ended(world, left)
    event("left over" if left else "released")
    if left:
        world.clock.run(asyncio.sleep(1000))
        ended(world, world.released())
    if not world.view.over:
        assert world.released(world.cloud) is None, "the provider does nothing wrong any more"
        ended(world, None)
    bill(world, joined)
