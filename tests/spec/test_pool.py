"""A pool of machines that are given to a cluster: what a failed change of it leaves alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.components.documents import pool_of
from runcrate_iac.errors import Refused, StepFailed
from runcrate_iac.machines import pool
from runcrate_iac.machines.faulty import Faulty
from runcrate_iac.machines.local.provider import LocalProvider
from runcrate_iac.model.documents import MachinesJob
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.spec import MachineSpec
from runcrate_iac.paths import cluster_dir
from tests.clock import Clock
from tests.cloud import Cloud
from tests.spec.test_gc import qemu

OWNER = "organization/p/s"
FAILS = {"fault": "failed", "node": "node-3", "done": True}
"""node-3's machine is made and does not start."""


class Lab(Cloud):
    """A stack's pool called `lab`, and what its provider was asked for."""

    def __init__(self, clock: Clock) -> None:
        """No machine yet."""
        super().__init__(clock, named=True)
        self.clock = clock
        self.asked: list[int] = []

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """As many machines as are asked for."""
        self.asked.append(nodes)
        return super().offers(machine, nodes)

    def job(self, nodes: int, *faults: dict[str, Any]) -> MachinesJob:
        """The document of so many machines."""
        return MachinesJob.model_validate_json(pool_of("lab", OWNER, {"nodes": nodes, "faults": faults}))

    def reserve(self, nodes: int, *faults: dict[str, Any]) -> None:
        """Make it so many."""
        job = self.job(nodes, *faults)
        source = Faulty(self, job.spec.faults, cluster_dir(pool.mark(job)) / "faults.json") if faults else self
        pool._prepare(job, source)
        self.clock.run(pool._reserve(job, source))

    @property
    def nodes(self) -> list[int]:
        """The numbers of its machines, by the provider's truth."""
        return sorted(made.index for made in self.alive)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A provider on a computer of its own."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    with closing(Clock()) as clock:
        found = Lab(clock)
        monkeypatch.setattr(pool, "provider", lambda name: found)
        yield found


def key(lab: Lab) -> Path:
    """The key with which the pool's machines are logged in to."""
    return cluster_dir(pool.mark(lab.job(4))) / "id_ed25519"


def test_a_first_attempt_that_fails_leaves_nothing(lab: Lab) -> None:
    """Pulumi knows no resource that failed, so every machine, the key and the record go with it (C8)."""
    with pytest.raises(StepFailed, match="node-3"):
        lab.reserve(4, FAILS)
    assert (lab.nodes, key(lab).exists(), pool.pools()) == ([], False, {})


def test_a_growth_that_fails_leaves_the_machines_of_the_running_cluster(lab: Lab) -> None:
    """Only the machines that were to be added go; those that a cluster may run on stay, with their key (C8, C7)."""
    lab.reserve(2)
    before = key(lab).read_text()
    with pytest.raises(StepFailed, match="node-3"):
        lab.reserve(4, FAILS)
    assert (lab.nodes, key(lab).read_text()) == ([0, 1], before)
    assert list(pool.pools().values()) == [OWNER]
    lab.reserve(4)
    assert lab.nodes == [0, 1, 2, 3]


def test_a_growth_asks_for_room_for_the_new_machines_only(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """The provider says before anything starts whether it has those that are missing, and all are told of (C4)."""
    lab.reserve(2)
    lab.reserve(4)
    lab.reserve(4)
    assert lab.asked == [2, 2]
    told = capsys.readouterr().out.splitlines()
    assert [len(json.loads(line)) for line in told] == [2, 4, 4]


def test_a_pool_never_shrinks(lab: Lab) -> None:
    """Fewer machines are refused by a preview too, before one that a cluster runs on is ended (C7)."""
    lab.reserve(4)
    with pytest.raises(Refused, match="pool lab: nodes: 4 are running, 2 are asked"):
        lab.job(2)
    assert lab.nodes == [0, 1, 2, 3]


def test_a_pool_of_another_state_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two computers of one user, such as two jobs of a CI, may have a pool of one name and stack each (X1)."""
    folders = {"ours": tmp_path / "ours", "theirs": tmp_path / "theirs"}
    job = MachinesJob.model_validate_json(pool_of("lab", OWNER, {}))
    marks = {}
    for whose, folder in folders.items():
        monkeypatch.setenv("RUNCRATE_IAC_HOME", str(folder))
        marks[whose] = pool.mark(job)
    with qemu(folders["theirs"], marks["theirs"]) as theirs:
        monkeypatch.setenv("RUNCRATE_IAC_HOME", str(folders["ours"]))
        asyncio.run(pool._release(job, LocalProvider()))
        assert theirs.poll() is None
        theirs.kill()
    assert marks["ours"] != marks["theirs"]


def test_a_pool_keeps_its_mark_where_its_state_folder_moves(lab: Lab, tmp_path: Path) -> None:
    """By another way to the folder, and in another place, its machines are found again (X1)."""
    lab.reserve(2)
    mark = pool.mark(lab.job(2))
    link, moved = tmp_path.with_name("link"), tmp_path.with_name("moved")
    link.symlink_to(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNCRATE_IAC_HOME", str(link))
        assert pool.mark(lab.job(2)) == mark
        patch.setenv("RUNCRATE_IAC_HOME", str(tmp_path.rename(moved)))
        assert pool.mark(lab.job(2)) == mark
        lab.clock.run(pool._release(lab.job(2), lab))
        assert (lab.nodes, pool.pools()) == ([], {})


def test_a_pool_that_was_ended_may_come_back_smaller(lab: Lab) -> None:
    """After `pulumi destroy` its name is as good as new (C4)."""
    lab.reserve(4)
    lab.clock.run(pool._release(lab.job(4), lab))
    lab.reserve(2)
    assert lab.nodes == [0, 1]


@pytest.mark.parametrize("gone", [False, True])
def test_machines_that_are_off_start_again(lab: Lab, gone: bool) -> None:
    """The same program runs the step once more where a machine does not run, and then no more (X5)."""

    async def program() -> str:
        return pool_of("lab", OWNER, {"nodes": 2})

    lab.reserve(2)
    well = lab.clock.run(program())
    assert well == pool_of("lab", OWNER, {"nodes": 2}) == lab.job(2).model_dump_json()
    lab.made[1].stopped = not gone
    lab.made[1].gone_at = lab.clock.time() if gone else None
    assert lab.clock.run(program()) != well
    lab.reserve(2)
    again = lab.clock.run(program())
    assert ([made.index for made in lab.alive if not made.stopped], lab.job(2).repairs) == ([0, 1], 1)
    assert again == lab.clock.run(program()) != well
