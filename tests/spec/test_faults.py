"""A schedule of faults as it is declared, and what of it is kept from one process to the next (X8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcrate_iac.errors import SpecError
from runcrate_iac.machines.faulty import Faulty
from runcrate_iac.machines.provider import HasMarks, HasPreparation, Provider, Reservation
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model.artifacts import Preload
from runcrate_iac.model.faults import KINDS, told
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import ClusterSpec, MachineSpec, parse
from runcrate_iac.specfile import load
from tests.clock import Clock
from tests.cloud import Cloud
from tests.faults import rows

DOCS = Path(__file__).parents[2] / "docs" / "rehearse.md"


def spec(*schedule: object) -> ClusterSpec:
    """A cluster of 2 nodes with these faults."""
    return parse({"name": "demo", "nodes": 2, "faults": list(schedule)})


def refused(*schedule: object) -> str:
    """The message with which these faults are refused."""
    with pytest.raises(SpecError) as error:
        spec(*schedule)
    return error.value.message


def test_an_unknown_field_is_named_with_the_ones_there_are() -> None:
    """A typo in a fault is an error with its path and the fields of that kind."""
    message = refused({"fault": "slow", "call": "create", "second": 3})
    assert "faults.0.seconds: Field required" in message
    assert "faults.0.second: Extra inputs are not permitted (given: 3); the fields are node, times, call" in message


def test_an_unknown_fault_is_told_what_there_is() -> None:
    """A kind that is not there, or none, is refused with the list."""
    assert "faults.0.fault: one of slow, hang" in refused({"call": "create"})
    assert all(kind in refused({"fault": "explode"}) for kind in KINDS)
    assert "(given: 'explode')" in refused({"fault": "explode"})


@pytest.mark.parametrize(
    ("fault", "told_of"),
    [
        ({"fault": "lie", "node": "node-2"}, "there is no node-2, the nodes are node-0 to node-1"),
        ({"fault": "lie", "node": 1}, "faults.0.node"),
        ({"fault": "same_address", "node": "node-1", "of": "node-1"}, "name another node in `of`"),
        ({"fault": "hang", "call": "list", "node": "node-1"}, "a list is of the whole cluster"),
        ({"fault": "hang", "call": "erase"}, "faults.0.call"),
        ({"fault": "hang", "call": "create", "times": 0}, "a whole number from 1 to 1000000, or always"),
        ({"fault": "hang", "call": "create", "times": True}, "a whole number from 1 to 1000000, or always"),
        ({"fault": "hang", "call": "create", "times": float("inf")}, "a whole number from 1 to 1000000, or always"),
        ({"fault": "not_listed", "seconds": -1}, "faults.0.seconds"),
        ({"fault": "not_listed", "seconds": float("nan")}, "faults.0.seconds"),
        ({"fault": "error", "call": "create", "status": 404}, "faults.0.status"),
        ({"fault": "wrong_address", "node": "node-1", "address": "a b\n"}, "faults.0.address"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(fault: dict[str, Any], told_of: str) -> None:
    """A value that makes no sense is refused before anything is made, naming the field."""
    assert told_of in refused(fault)


def test_the_same_fault_twice_is_refused() -> None:
    """Two equal faults are one with `times`."""
    assert "fault 1: the same as 0: say `times` instead" in refused({"fault": "lie"}, {"fault": "lie"})


def test_faults_may_be_in_a_file_beside_the_spec(tmp_path: Path) -> None:
    """`faults: FILE` is the list in that file, relative to the spec file."""
    (tmp_path / "faults.yaml").write_text(yaml.safe_dump([{"fault": "lie", "times": "always"}]))
    (tmp_path / "demo.yaml").write_text("name: demo\nfaults: faults.yaml\n")
    assert load(tmp_path / "demo.yaml").faults == spec({"fault": "lie", "times": "always"}).faults


def test_a_file_of_faults_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file is an error with its path and the remedy."""
    (tmp_path / "demo.yaml").write_text("name: demo\nfaults: nowhere.yaml\n")
    with pytest.raises(SpecError, match=r"nowhere\.yaml: No such file.*\n.*a list, or the path"):
        load(tmp_path / "demo.yaml")


def test_what_is_injected_is_told_on_one_line() -> None:
    """Call, kind and node of each."""
    faults = spec({"fault": "error", "call": "create", "node": "node-1"}, {"fault": "lie"}).faults
    assert told(faults) == "faults are injected: create error (node-1), lie"


def test_the_documentation_has_every_fault_with_its_fields() -> None:
    """The table of the how-to is the model's."""
    assert "\n".join(rows()) in DOCS.read_text()


def test_the_example_of_the_documentation_is_a_spec() -> None:
    """Every block of YAML in the how-to is accepted."""
    blocks = [block.split("```")[0] for block in DOCS.read_text().split("```yaml\n")[1:]]
    assert blocks
    assert all(parse(yaml.safe_load(block)).faults for block in blocks)


class Prepared(Cloud):
    """A provider with something to prepare."""

    def prepare(self, machine: MachineSpec, preload: Preload | None, report: Report) -> None:  # noqa: ARG002
        """Say so."""
        report("prepared", None)


class Marked(Prepared):
    """A provider that knows its clusters too."""

    async def marks(self) -> Sequence[str]:
        """One cluster."""
        return ["demo-1"]


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Time that passes at once."""
    with closing(Clock()) as found:
        yield found


@pytest.mark.parametrize(("kind", "abilities"), [(Cloud, 0), (Prepared, 1), (Marked, 2)])
def test_it_can_what_the_inner_provider_can(tmp_path: Path, clock: Clock, kind: type[Cloud], abilities: int) -> None:
    """Whether it prepares, and whether it knows its clusters, is as with the inner provider."""
    found = Faulty(kind(clock), (), tmp_path / "faults.json")
    assert isinstance(found, HasPreparation) + isinstance(found, HasMarks) == abilities
    told_of: list[str] = []
    if isinstance(found, HasPreparation):
        found.prepare(MachineSpec(), None, lambda message, node: told_of.append(message))
        assert told_of == ["prepared"]


def test_a_spec_with_faults_wraps_its_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider of a spec has its faults, that of the program's own machines too; one without faults is as it is."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    own = (Machine(index=0, id="a", host="192.0.2.1"), Machine(index=1, id="b", host="192.0.2.2"))
    assert isinstance(provider_of(spec({"fault": "lie"})), Faulty)
    assert isinstance(provider_of(spec({"fault": "lie"}), own), Faulty)
    assert not isinstance(provider_of(spec()), Faulty)
    assert list(tmp_path.iterdir()) == []


def ordered(clock: Clock, provider: Provider, cluster_id: str = "demo-1") -> str:
    """Order node-0's machine; what came of it."""
    request = Reservation(
        cluster_id=cluster_id,
        nodes=2,
        machine=MachineSpec(),
        authorized_keys=(),
        identity_file=Path("key"),
        deadline=600,
    )
    try:
        return clock.run(provider.create(request, 0, lambda message, node: None)).id
    except (ConnectionError, OSError) as error:
        return str(error)


def test_a_later_process_goes_on_with_the_schedule(tmp_path: Path, clock: Clock) -> None:
    """What has happened twice in one process happens once more in the next, where it was to happen three times."""
    cloud, faults = Cloud(clock), spec({"fault": "dropped", "call": "create", "times": 3}).faults
    came = [ordered(clock, Faulty(cloud, faults, tmp_path / "faults.json")) for _ in range(4)]
    assert came == ["the connection was dropped (injected)"] * 3 + ["vm-0"]


def test_another_cluster_of_that_name_starts_anew(tmp_path: Path, clock: Clock) -> None:
    """A new attempt has every fault again."""
    cloud, faults = Cloud(clock), spec({"fault": "dropped", "call": "create"}).faults
    provider = Faulty(cloud, faults, tmp_path / "faults.json")
    came = [ordered(clock, provider, cluster_id) for cluster_id in ("demo-1", "demo-1", "demo-2", "demo-2")]
    assert came == ["the connection was dropped (injected)", "vm-0", "the connection was dropped (injected)", "vm-1"]


def test_a_damaged_memory_keeps_no_machine_alive(tmp_path: Path, clock: Clock) -> None:
    """Where the file of what has happened is damaged the schedule starts anew, and machines are still released."""
    cloud, faults = Cloud(clock), spec({"fault": "dropped", "call": "create", "done": True}).faults
    memory = tmp_path / "faults.json"
    ordered(clock, Faulty(cloud, faults, memory))
    memory.write_text(memory.read_text()[:40])
    provider = Faulty(cloud, faults, memory)
    machine = clock.run(asyncio.wait_for(provider.list("demo-1"), 1))[0]
    clock.run(asyncio.wait_for(provider.delete(machine, lambda message, node: None), 1))
    assert cloud.alive == []
