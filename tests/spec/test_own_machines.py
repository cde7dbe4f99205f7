"""Machines of the user's own: which cluster has them, by the ledger and by their own word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.components import documents
from runcrate_iac.errors import Refused
from runcrate_iac.machines import step
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.documents import MachinesJob
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import parse as parsed
from runcrate_iac.provision import growth, membership
from runcrate_iac.provision.facts import parse
from runcrate_iac.provision.membership import Membership
from tests.clock import Clock
from tests.spec.test_preflight import machine, network
from tests.world import World, quiet

GIVEN = [
    Machine(index=index, id=f"192.0.2.{index}:22", host=f"192.0.2.{index}", host_key=f"ssh-ed25519 K{index}")
    for index in range(4)
]


def listed(*machines: Machine) -> list[Machine]:
    """These machines in this order."""
    return [machine.model_copy(update={"index": index}) for index, machine in enumerate(machines)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A computer of its own."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    with closing(Clock()) as ticking:
        found = World(tmp_path, ticking)
        yield found
        found.ledger.close()


def test_a_machine_of_another_living_cluster_is_refused(world: World) -> None:
    """Nothing is recorded of a cluster that wants another one's machine; a preview says so too (C7)."""
    world.given(GIVEN[:2], "first")
    wanted = listed(*GIVEN[1:3])
    with pytest.raises(Refused, match=r"192\.0\.2\.1:22 is node-1 of first, which is provisioning"):
        world.given(wanted, "second")
    assert world.ledger.latest("second") is None
    args: list[Mapping[str, Any]] = [{"address": one.host, "host_key": one.host_key} for one in wanted]
    spec = documents.spec_of("second", {"machines": args})
    with pytest.raises(Refused, match="node-1 of first"):
        documents.machines_document(spec, "o/p/s", args)


def test_of_two_clusters_that_want_a_machine_at_once_one_is_refused(world: World) -> None:
    """What another step notes while this one runs counts too: two resources of one program run at once (C7)."""

    class Meanwhile(GivenProvider):
        async def create(self, request: Reservation, index: int, report: Report) -> Machine:
            if index == 0:
                spec = parsed({"name": "first", "nodes": 2, "provider": "given"})
                first = MachinesJob(spec=spec, owner="o/p/s", given=tuple(GIVEN[:2]))
                await step.reserve(first, GivenProvider(GIVEN[:2]), world.ledger, quiet)
            return await super().create(request, index, report)

    wanted = listed(*GIVEN[1:3])
    job = MachinesJob(spec=parsed({"name": "second", "nodes": 2, "provider": "given"}), owner="o", given=tuple(wanted))
    with pytest.raises(Refused, match="node-1 of first"):
        world.clock.run(step.reserve(job, Meanwhile(wanted), world.ledger, quiet))


def test_a_machine_is_free_when_its_cluster_has_ended(world: World) -> None:
    """One cluster after another may have the same machines, or another machine at the same address."""
    world.given(GIVEN[:2], "first")
    other = GIVEN[1].model_copy(update={"host_key": "ssh-ed25519 other"})
    assert len(world.given(listed(other, GIVEN[2]), "second").machines) == 2
    view = world.ledger.current("first")
    assert view
    world.clock.run(step.release(view, GivenProvider(), world.ledger, quiet))
    assert len(world.given(GIVEN[:2], "third").machines) == 2


def refused(wanted: Membership, *told: dict[str, Any]) -> list[tuple[str | None, str]]:
    """Node and reason of what keeps machines out that say this of themselves."""
    facts = {index: machine(index, **fields) for index, fields in enumerate(told)}
    found = list(membership.refusals(network(len(told)), facts, wanted))
    assert all(condition.remedy for condition in found)
    return [(condition.node, condition.reason) for condition in found]


def test_a_machine_says_which_cluster_it_is_in() -> None:
    """Its word is a fact of the preflight; a machine that was never joined, or not by a lease, says nothing."""
    told: tuple[list[str], ...] = (["cluster demo-1234 node-1", "leased yes"], ["cluster demo-1234 "], [])
    found = [parse(["time 0", *lines], now=0.0) for lines in told]
    assert [(facts.cluster, facts.node, facts.leased) for facts in found if facts] == [
        ("demo-1234", "node-1", True),
        ("demo-1234", "", False),
        ("", "", False),
    ]


def test_a_machine_that_is_in_another_cluster_by_its_own_word_is_refused() -> None:
    """Another computer's cluster is not known here: the machine itself tells of it, before it is touched (C7)."""
    wanted = Membership(cluster_id="demo-2", ended=("demo-1",))
    free: list[dict[str, Any]] = [{}, {"cluster": "demo-2"}, {"cluster": "demo-1"}]
    assert refused(wanted, *free) == []
    assert refused(wanted, *free, {"cluster": "lab-7", "joined": True}) == [("node-3", "InAnotherCluster")]


def member(node: str, **fields: Any) -> dict[str, Any]:
    """A machine that says it is this node of the cluster that is up."""
    return {"cluster": "demo-2", "node": node, "joined": True, **fields}


@pytest.mark.parametrize("index", [0, 1])
def test_the_order_of_machines_that_are_up_is_kept(world: World, index: int) -> None:
    """A list that is shifted is refused before anything is done, in a preview too; what is up is not touched (C7)."""
    up(world)
    before = world.ledger.entries("own")
    shifted = list(GIVEN[:2])
    shifted.insert(index, GIVEN[2])
    args: list[Mapping[str, Any]] = [{"address": one.host, "host_key": one.host_key} for one in shifted]
    with pytest.raises(Refused, match=r"192\.0\.2\.1:22 is node-1, and would be node-2"):
        world.given(listed(*shifted))
    spec = documents.spec_of("own", {"machines": args})
    with pytest.raises(Refused, match="is node-1, and would be node-2"):
        documents.machines_document(spec, "o/p/s", args)
    assert world.ledger.entries("own") == before


def up(world: World) -> None:
    """A cluster of the first two machines is up."""
    world.ledger.record("own", world.given(GIVEN[:2]).cluster_id, Happened.JOINED_BARE)


def test_another_machine_may_take_the_place_of_a_worker(world: World) -> None:
    """Its predecessor is no node any more; one that never joined may come anywhere later (X5)."""
    up(world)
    assert world.given(listed(GIVEN[0], GIVEN[2])).machines[1].host == "192.0.2.2"
    assert len(world.given(listed(GIVEN[0], GIVEN[1], GIVEN[2])).machines) == 3


def test_the_head_of_a_cluster_that_is_up_stays_the_same_machine() -> None:
    """Another machine in its place is refused, whatever the software; a new address of the same one is none (C19)."""
    wanted = Membership(cluster_id="demo-2", ended=("demo-1",), settled=2)
    worker = member("node-1")
    for stranger in ({}, {"cluster": "demo-1"}, {"cluster": "demo-1", "joined": True}):
        assert refused(wanted, stranger, worker) == [("node-0", "OtherHead")]
        assert refused(wanted.model_copy(update={"settled": 0}), stranger, worker) == []
    for same in (member("node-0"), member(""), member("node-0", leased=True), {"joined": True}):
        assert refused(wanted, same, worker) == []
    assert refused(wanted, member("node-0"), {}) == []


def test_a_node_under_a_new_address_keeps_its_number() -> None:
    """A list that is shifted together with its addresses is known by what the machines say (C7)."""
    wanted = Membership(cluster_id="demo-2", settled=2)
    shifted: list[dict[str, Any]] = [{}, member("node-0"), member("node-1")]
    assert refused(wanted, *shifted) == [("node-0", "OtherHead"), ("node-1", "OtherNode"), ("node-2", "OtherNode")]
    added = member("node-1", leased=True)
    assert refused(wanted, member("node-0"), member("node-1"), added) == []


def told(world: World, *said: dict[str, Any]) -> list[tuple[str | None, str]]:
    """Node and predecessor of each machine that is exchanged, by what the ledger knows and the machines say."""
    view = world.ledger.latest("own")
    assert view
    wanted = growth.membership(view, world.ledger).model_copy(update={"cluster_id": "demo-2"})
    facts = {index: machine(index, **fields) for index, fields in enumerate(said)}
    news = membership.exchanged(network(len(said)), facts, wanted)
    return [(one.node, one.message.partition(",")[0].rpartition(" ")[2]) for one in news]


def test_a_machine_that_was_exchanged_is_named(world: World) -> None:
    """It keeps names, firewall and mounts of the cluster, and the news say what to run there; a move is none (C22)."""
    up(world)
    assert told(world, {}, {}) == []
    world.given(listed(GIVEN[0], GIVEN[2]))
    for stranger in ({}, member("node-1", leased=True)):
        assert told(world, member("node-0"), stranger) == [("node-1", "192.0.2.1")]
    for same in (member("node-1"), member(""), {"joined": True}):
        assert told(world, member("node-0"), same) == []
    world.given(GIVEN[:2])
    assert told(world, member("node-0"), {}) == []
