"""Machines that belong to nothing are found by their mark, released when told to, and no others."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from runcrate_iac.cli import main
from runcrate_iac.components.documents import pool_of
from runcrate_iac.errors import Refused, StepFailed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines import pool
from runcrate_iac.machines.forgotten import judge
from runcrate_iac.machines.local.marks import marks
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.machines.registry import FAULTS
from runcrate_iac.machines.step import request_for
from runcrate_iac.model.documents import MachinesJob
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import ClusterSpec, MachineSpec

RESERVED: dict[str, Any] = {
    "owner": "organization/runcrate-iac/demo",
    "spec": {"name": "demo", "nodes": 2, "provider": "local"},
    "deadline": "2026-01-01T00:25:00+00:00",
    "price_per_hour": "0",
}
MARK = "demo-0123abcd"
Gc = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def machine(home: Path, mark: str, index: int = 0) -> Path:
    """What is left of a local machine whose process has ended: its folder."""
    folder = home / "machines" / mark / f"node-{index}"
    folder.mkdir(parents=True)
    return folder


def qemu(home: Path, mark: str) -> subprocess.Popen[bytes]:
    """A process that looks like the machine of node 0, with its files in that state folder."""
    console = home / "machines" / mark / "node-0" / "console.log"
    code = "import time; print(flush=True); time.sleep(60)"
    words = ["-name", f"guest={mark}.node-0", "-chardev", f"file,id=console,path={console},append=on"]
    process = subprocess.Popen(
        ["qemu-system-x86_64", "-c", code, *words], executable=sys.executable, stdout=subprocess.PIPE
    )
    assert process.stdout
    process.stdout.readline()
    return process


@pytest.fixture
def running(home: Path, tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """A machine of this state folder and one of another, both of no known cluster."""
    found = {"ours": qemu(home, "ours-00000001"), "theirs": qemu(tmp_path / "other", "theirs-00000002")}
    yield found
    for process in found.values():
        process.kill()
        process.communicate()


@pytest.fixture
def gc(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gc:
    """Run `gc --json` with these words: exit code and document."""

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["runcrate-iac", "gc", "--json", *words])
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        assert isinstance(code, int)
        return code, json.loads(capsys.readouterr().out)

    return run


def belongs(mark: str, view: View | None, *, pool: bool = False, busy: bool = False) -> str:
    """What such a mark is said to belong to."""
    pooled, working = ({mark: "o/p/s"} if pool else {}), ({"demo": "`up` is working on it"} if busy else {})
    return judge(mark, lambda: view, pooled, working)[0]


def reserved(home: Path, *after: Happened) -> View:
    """A cluster that was reserved, and what happened to it then."""
    ledger = Ledger(home / "ledger.db")
    view = ledger.record("demo", MARK, Happened.RESERVED, **RESERVED)
    for happened in after:
        view = ledger.record("demo", MARK, happened)
    ledger.close()
    return view


def test_a_mark_of_nothing_belongs_to_nothing(home: Path) -> None:
    """A mark that no ledger knows, that of an ended cluster, or of an older one of its name is forgotten (X1)."""
    assert belongs(MARK, None) == ""
    living = reserved(home)
    assert belongs("demo-ffffffff", living) == ""
    assert belongs(MARK, living.model_copy(update={"state": "failed", "released": True})) == ""


def test_a_living_cluster_a_pool_and_a_busy_one_keep_their_machines(home: Path) -> None:
    """What lives, is not proved released, is a stack's pool, or is being worked on, is said to be so (C7, F17)."""
    living = reserved(home, Happened.START_FAILED)
    assert "runcrate-iac down demo" in belongs(MARK, living)
    assert "pulumi destroy" in belongs(MARK, None, pool=True)
    assert "`up` is working" in belongs(MARK, None, busy=True)


def test_a_cluster_that_is_not_understood_keeps_its_machines(home: Path, gc: Gc) -> None:
    """Where a newer version wrote a cluster's events none of its machines is forgotten (X6)."""
    reserved(home)
    ledger = Ledger()
    ledger.note("demo", MARK, Note.MACHINES, machines=[{"colour": "blue"}])
    with pytest.raises(Refused):
        ledger.latest("demo")
    machine(home, MARK)
    code, found = gc("--release", "--yes")
    assert (code, found["released"]) == (0, [])
    assert "can't be understood" in found["marked"][0]["belongs_to"]


def test_machines_of_another_state_folder_are_not_seen(running: dict[str, subprocess.Popen[bytes]], gc: Gc) -> None:
    """Only machines whose files are in this state folder are found: those of another one are not ours (X1)."""
    assert marks() == ["ours-00000001"]
    code, found = gc("--release", "--yes")
    assert (code, list(found["released"][0]["gone"])) == (0, ["ours-00000001.node-0"])
    assert not psutil.pid_exists(running["ours"].pid)
    assert running["theirs"].poll() is None


class Source:
    """A provider with machines in memory that looks whether the pool is known while it makes them."""

    name = "memory"
    listing_delay = 0.0

    def __init__(self) -> None:
        """No machine yet."""
        self.machines: dict[str, Machine] = {}
        self.known: list[dict[str, str]] = []

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[str]:  # noqa: ARG002
        """As many as are asked for."""
        return ["offer"]

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:  # noqa: ARG002
        """Make one."""
        self.known.append(pool.pools())
        made = Machine(index=index, id=f"m{index}", host=f"192.0.2.{index}")
        return self.machines.setdefault(made.id, made)

    async def list(self, cluster_id: str) -> Sequence[Machine]:  # noqa: ARG002
        """What there is."""
        return list(self.machines.values())

    async def delete(self, machine: Machine, report: Report) -> None:  # noqa: ARG002
        """Remove one."""
        del self.machines[machine.id]


def test_a_pool_is_known_from_before_its_first_machine_to_after_its_last(home: Path) -> None:  # noqa: ARG001
    """While a pool may have machines its mark belongs to its stack; with the last one that ends (X1)."""
    job = MachinesJob(spec=ClusterSpec(name="pool"), owner="organization/p/s")
    source: Any = Source()
    asyncio.run(pool._reserve(job, source))
    assert source.known == [{pool.mark(job): "organization/p/s"}] * 2
    assert pool.pools() == {pool.mark(job): "organization/p/s"}
    asyncio.run(pool._release(job, source))
    assert pool.pools() == {}


def test_a_pool_meets_its_faults(home: Path) -> None:
    """Faults of a pool are injected; what has happened is in its own folder, not a cluster's, and goes with it (X8)."""
    document = pool_of("demo", "organization/p/s", {"nodes": 2.0, "faults": [{"fault": "failed", "times": "always"}]})
    job = MachinesJob.model_validate_json(document)
    source, kept = pool.source_of(job), home / "clusters" / pool.mark(job) / FAULTS
    with pytest.raises(StepFailed, match=r"its machine failed to start \(injected\)"):
        asyncio.run(source.create(request_for(job.spec, pool.mark(job), time.time() + 60), 0, lambda *_: None))
    assert kept.exists()
    with pytest.raises(StepFailed, match=r"its machine failed to start \(injected\)"):
        asyncio.run(pool._reserve(job, source))
    assert (pool.pools(), kept.exists(), (home / "clusters" / "demo" / FAULTS).exists()) == ({}, False, False)


def test_nothing_is_released_unless_told_to(home: Path, gc: Gc) -> None:
    """`gc` lists; with --release it asks, and without a terminal wants --yes (X1)."""
    folder = machine(home, MARK)
    code, found = gc()
    assert (code, found["marked"][0]["belongs_to"], found["released"]) == (0, "", [])
    code, refused = gc("--release")
    assert (code, "--yes" in refused["error"]["remedy"]) == (2, True)
    assert folder.exists()


def test_released_machines_are_proved_gone_and_noted(home: Path, gc: Gc) -> None:
    """A machine of a cluster that the ledger calls ended is released, with the proof in the ledger (X1)."""
    reserved(home, Happened.START_FAILED, Happened.RELEASED)
    folder = machine(home, MARK)
    code, found = gc("--release", "--yes")
    assert code == 0
    assert "does not list it" in found["released"][0]["gone"][f"{MARK}.node-0"]
    assert not folder.exists()
    assert Ledger().entries("demo")[-1].type == Note.MACHINE_GONE
    assert gc()[1]["marked"] == []


def test_a_locked_cluster_is_left_alone(home: Path, gc: Gc) -> None:
    """While another command works on that name its machines are not released (F17)."""
    folder = machine(home, MARK)
    lock = home / "clusters" / "demo" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with subprocess.Popen(["flock", str(lock), "cat"], stdin=subprocess.PIPE) as holding:
        while "working" not in (found := gc("--release", "--yes")[1])["marked"][0]["belongs_to"]:
            assert holding.poll() is None
            assert folder.exists()
        assert found["released"] == []
    assert folder.exists()


def test_a_machine_with_a_damaged_record_can_be_released(home: Path, gc: Gc) -> None:
    """A record that is cut or not ours does not keep a machine from being listed and released (X1)."""
    (machine(home, MARK) / "machine.json").write_text('{"index": 0, "id"')
    code, found = gc("--release", "--yes")
    assert (code, list(found["released"][0]["gone"])) == (0, [f"{MARK}.node-0"])


def test_a_damaged_ledger_is_saved_and_its_machines_are_found(home: Path, gc: Gc) -> None:
    """With the ledger cut, gc keeps the file, says what it saved, and finds machines by their mark (X6, X1)."""
    reserved(home)
    ledger = Ledger()
    for number in range(50):
        ledger.note("demo", MARK, Note.STEP_STARTED, step="join", text="x" * 500, number=number)
    ledger.close()
    path = home / "ledger.db"
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    machine(home, MARK)
    machine(home, "lost-0000aaaa")
    code, found = gc()
    assert code == 0
    assert found["salvaged"]["events"]["demo"] > 10
    assert Path(found["salvaged"]["kept"]).exists()
    told = {entry["cluster_id"]: entry["belongs_to"] for entry in found["marked"]}
    assert told["lost-0000aaaa"] == ""
    assert "runcrate-iac down demo" in told[MARK]
    assert gc()[1]["salvaged"] is None


def test_a_lost_ledger_leaves_machines_that_are_found(home: Path, gc: Gc) -> None:
    """An empty ledger file is kept too; machines of a cluster that only it knew are found and released (X6, X1)."""
    reserved(home)
    (home / "ledger.db").write_bytes(b"")
    folder = machine(home, MARK)
    code, found = gc("--release", "--yes")
    assert (code, found["salvaged"]["events"]) == (0, {})
    assert not folder.exists()
    shutil.rmtree(home)
