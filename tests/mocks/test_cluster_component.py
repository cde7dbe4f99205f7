"""The component declares a resource for each step, and nothing runs to declare it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks

from runcrate_iac import Cluster, LocalMachines, Machine
from runcrate_iac.errors import Refused, SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.model.lifecycle import Happened

MADE = {
    "cluster_id": "demo-1",
    "deadline": "2026-01-01T00:25:00Z",
    "price_per_hour": {"usd": "5.000000"},
    "machines": [{"index": i, "id": f"m{i}", "host": f"192.0.2.{i}"} for i in range(2)],
}
STACKS = Path(__file__).parents[2] / "stacks"


class Recorder(mocks.Mocks):
    """Keeps every resource that a program registers."""

    def __init__(self) -> None:
        """Start with none."""
        self.seen: dict[str, mocks.MockResourceArgs] = {}
        self.preview = False

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        """Answer as the machines step would."""
        self.seen[args.name] = args
        return args.name, {**args.inputs, "stdout": json.dumps(MADE)}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        """Answer nothing: no function is called."""
        raise NotImplementedError(args.token)


@pytest.fixture
def recorder() -> Recorder:
    """A program's resources, recorded."""
    return Recorder()


def declare(recorder: Recorder, name: str = "demo", **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Declare a cluster, a field by its value or by what makes it; its outputs, and each step's document."""
    outputs: dict[str, Any] = {}

    def program() -> pulumi.Output[Any]:
        cluster = Cluster(name, **{key: value() if callable(value) else value for key, value in fields.items()})
        names = ("cluster_id", "price_per_hour", "ssh_config")
        return pulumi.Output.all(**{key: getattr(cluster, key) for key in names}).apply(outputs.update)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(_run, recorder, program).result()
    documents = {
        seen.removeprefix(f"{name}-"): json.loads(plain(args.inputs["stdin"]))
        for seen, args in recorder.seen.items()
        if isinstance(args.inputs.get("stdin"), str | dict)  # else it is not known yet
    }
    return outputs, documents


def plain(value: Any) -> Any:
    """The value without the mark of a secret."""
    return value["value"] if isinstance(value, dict) else value


def _run(recorder: Recorder, program: Callable[[], Any]) -> None:
    # In a thread of its own: Pulumi nests event loops, which upsets this thread's recursion count in CPython 3.11.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    pulumi.runtime.set_mocks(recorder, project="lab", stack="dev", preview=recorder.preview)
    try:
        pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        with warnings.catch_warnings():  # Pulumi's mocks leave the loops of their threads unclosed
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def test_each_step_is_a_resource(recorder: Recorder) -> None:
    """Machines, join, storage, software and check are a resource each (C24)."""
    _, documents = declare(recorder, software="slurm")
    assert list(documents) == ["machines", "join", "storage", "software", "check"]


def test_outputs_tell_how_to_reach_it(recorder: Recorder) -> None:
    """The cluster's id, price and ssh configuration are outputs (X7)."""
    outputs, _ = declare(recorder)
    assert outputs["cluster_id"] == "demo-1"
    assert outputs["price_per_hour"] == "5.000000"
    assert outputs["ssh_config"].endswith("clusters/demo/ssh_config")


def test_only_the_machines_step_deletes(recorder: Recorder) -> None:
    """Destroying releases all machines with one call, and no node alone (C7)."""
    declare(recorder)
    assert [name for name, args in recorder.seen.items() if "delete" in args.inputs] == ["demo-machines"]


def test_machines_of_the_program_are_taken_as_given(recorder: Recorder) -> None:
    """Machines from any Pulumi resource make a cluster, in the order given (C24)."""

    def machines() -> list[Machine]:
        return [Machine(address=pulumi.Output.from_input(f"192.0.2.{i}"), user="admin") for i in range(3)]

    _, documents = declare(recorder, machines=machines)
    assert [m["host"] for m in documents["machines"]["given"]] == ["192.0.2.0", "192.0.2.1", "192.0.2.2"]
    assert documents["machines"]["spec"]["nodes"] == 3
    assert documents["machines"]["spec"]["provider"] == "given"


def not_yet() -> pulumi.Output[Any]:
    """An output of a resource that a preview only plans."""
    loop = asyncio.get_event_loop()
    nothing, unknown = loop.create_future(), loop.create_future()
    nothing.set_result(None)
    unknown.set_result(False)
    return pulumi.Output(set(), nothing, unknown)


def servers() -> list[Machine]:
    """Three that are still to be made."""
    return [Machine(address=not_yet()) for _ in range(3)]


@pytest.mark.parametrize("machines", [servers, not_yet, lambda: [not_yet(), not_yet()]])
@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"software": "slurmm"}, "software: Input should be"),
        ({"nodes": 1}, "nodes: Input should be"),
        ({"setup": "/nowhere/setup.sh"}, "No such file"),
    ],
)
def test_a_preview_checks_the_spec_before_any_server_is_made(
    recorder: Recorder, machines: Callable[[], Any], fields: dict[str, Any], told: str
) -> None:
    """While the addresses of one's own machines are unknown, a wrong field fails the preview all the same (X7)."""
    recorder.preview = True
    with pytest.raises(SpecError, match=told):
        declare(recorder, machines=machines, **fields)


@pytest.mark.parametrize(
    ("second", "told"),
    [(lambda: {"user": "admin"}, r"machines\.1\.address"), (lambda: {"address": not_yet(), "usr": "x"}, "usr")],
)
def test_a_preview_checks_what_it_knows_of_a_machine(recorder: Recorder, second: Callable[[], Any], told: str) -> None:
    """A field that no machine has, or none for its address, is found beside addresses that are unknown (X7)."""
    recorder.preview = True
    with pytest.raises(SpecError, match=told):
        declare(recorder, machines=lambda: [{"address": not_yet()}, second()])


@pytest.mark.parametrize("machines", [servers, not_yet])
def test_a_preview_of_good_arguments_passes(recorder: Recorder, machines: Callable[[], Any]) -> None:
    """Addresses that are unknown are no fault, nor is their number (X7)."""
    recorder.preview = True
    declare(recorder, machines=machines)
    assert "demo-machines" in recorder.seen


@pytest.mark.parametrize(("mine", "told"), [(True, "provider"), (False, "by the stack o/p/other")])
def test_a_preview_refuses_what_a_running_cluster_cannot_become(recorder: Recorder, *, mine: bool, told: str) -> None:
    """A name that is taken, by this stack with another provider or by another stack, is refused in preview (C7, X7)."""
    owner = declare(recorder)[1]["machines"]["owner"] if mine else "o/p/other"
    facts = {"owner": owner, "spec": {"name": "demo", "nodes": 2}, "price_per_hour": "0"}
    Ledger().record("demo", "demo-1", Happened.RESERVED, **facts, deadline="2026-01-01T00:25:00Z")
    recorder.preview = True
    with pytest.raises(Refused, match=told):
        declare(recorder, machines=servers)


@pytest.mark.parametrize("nodes", [2, 4.0])
def test_another_number_of_nodes_than_of_machines_fails_the_program(recorder: Recorder, nodes: float) -> None:
    """A preview names both numbers, of a cluster that is up as of a new one, and no machine is waited for (C1)."""
    machines = [Machine(address=f"192.0.2.{i}") for i in range(3)]
    with pytest.raises(SpecError, match=rf"nodes: {nodes:.0f} are declared, and there are 3 in `machines`"):
        declare(recorder, nodes=nodes, machines=lambda: machines)
    assert "demo-machines" not in recorder.seen


def test_an_update_is_told_that_pulumi_knows_it(recorder: Recorder) -> None:
    """An update reserves by another verb than a creation, so that a foreign state folder can refuse it (C4)."""
    declare(recorder)
    made, join = recorder.seen["demo-machines"].inputs, recorder.seen["demo-join"].inputs
    assert made["update"] == made["create"].replace("machines reserve", "machines update")
    assert "update" not in join


def test_a_step_runs_where_the_interpreter_that_made_it_is_gone(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Destroying a cluster of an environment that was removed runs the python3 on PATH, or names it (C7)."""
    (tmp_path / "python3").symlink_to(sys.executable)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(tmp_path / "gone" / "python"))
        declare(recorder)
    line = recorder.seen["demo-machines"].inputs["delete"].replace("release", "no-verb")

    def run(path: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PATH": path}
        return subprocess.run(["/bin/sh", "-c", line], env=env, capture_output=True, text=True, check=False)

    assert "usage: python -m runcrate_iac.machines" in run(f"{tmp_path}:/usr/bin:/bin").stderr
    nowhere = run(str(tmp_path / "gone"))
    assert (nowhere.returncode, "python3: not found" in nowhere.stderr) == (127, True)


def test_machines_of_the_program_are_left_as_they_were(recorder: Recorder) -> None:
    """Destroying undoes the join on machines that stay, before the machines' own resources end (C7, C22)."""
    declare(recorder, machines=lambda: [Machine(address=f"192.0.2.{i}") for i in range(2)])
    assert recorder.seen["demo-join"].inputs["delete"].endswith("-m runcrate_iac.provision leave")


def test_a_change_runs_only_the_steps_that_depend_on_it(recorder: Recorder) -> None:
    """Another software changes the document of the software and check steps, not of join and storage (C5)."""
    _, bare = declare(recorder)
    recorder.seen.clear()
    _, slurm = declare(recorder, software="slurm")
    assert {step for step in bare if bare[step] != slurm[step]} == {"machines", "software", "check"}


def test_faults_are_the_machines_steps(recorder: Recorder) -> None:
    """Faults that a program declares reach the machines step, and no step runs again on the nodes for them (X8)."""
    _, sound = declare(recorder)
    recorder.seen.clear()
    _, faulty = declare(recorder, faults=[{"fault": "lie", "node": "node-1", "times": 2.0}])
    assert faulty["machines"]["spec"]["faults"] == [{"fault": "lie", "node": "node-1", "times": 2}]
    assert {step for step in sound if sound[step] != faulty[step]} == {"machines"}


def test_faults_are_the_local_machines(recorder: Recorder) -> None:
    """Machines of this computer without a cluster take faults as a cluster does (X8)."""
    with ThreadPoolExecutor(1) as thread:
        faults = [{"fault": "lie", "node": "node-1", "times": 2.0}]
        thread.submit(_run, recorder, lambda: LocalMachines("lab", faults=faults).machines).result()
    document = json.loads(recorder.seen["lab-pool"].inputs["stdin"])
    assert document["spec"]["faults"] == [{"fault": "lie", "node": "node-1", "times": 2}]


def test_a_second_declaration_is_the_same(recorder: Recorder) -> None:
    """The same program gives the same documents, so that a second `up` changes nothing (C4)."""
    _, first = declare(recorder, software="slurm")
    recorder.seen.clear()
    assert declare(recorder, software="slurm")[1] == first


def test_a_cluster_is_never_renamed(recorder: Recorder) -> None:
    """Another cluster_name on the resource of a cluster that is up is refused; on another resource it is not (C7)."""
    _, documents = declare(recorder, cluster_name="a")
    job = documents["machines"]
    facts = {key: job[key] for key in ("owner", "resource", "spec")}
    Ledger().record("a", "a-1", Happened.RESERVED, **facts, deadline="2026-01-01T00:25:00Z", price_per_hour="0")
    assert declare(recorder, cluster_name="a")[1]["machines"]["resource"] == job["resource"] != ""
    assert "machines" in declare(recorder, name="other", cluster_name="b")[1]
    recorder.seen.clear()
    with pytest.raises(Refused, match="a is provisioning, and a cluster's name can't become another one: b is asked"):
        declare(recorder, cluster_name="b")
    assert "demo-machines" not in recorder.seen


def test_two_resources_with_one_cluster_name_are_refused(recorder: Recorder) -> None:
    """A second Cluster of that name fails the program: they would be one, ended with either of them (C7, X1)."""

    def program() -> None:
        Cluster("a", cluster_name="demo")
        Cluster("b", cluster_name="demo")

    with ThreadPoolExecutor(1) as thread, pytest.raises(SpecError, match="Cluster demo is declared twice"):
        thread.submit(_run, recorder, program).result()
    assert not {"a-machines", "b-machines"} <= set(recorder.seen)  # Pulumi may come to either first


def test_two_pools_of_one_name_are_refused(recorder: Recorder) -> None:
    """Pools of one name under different parents would be the same machines, and fail the program (C7, X1)."""

    def program() -> None:
        for parent in ("a", "b"):
            LocalMachines("lab", opts=pulumi.ResourceOptions(parent=pulumi.ComponentResource("t:m:T", parent)))

    with ThreadPoolExecutor(1) as thread, pytest.raises(SpecError, match="LocalMachines lab is declared twice"):
        thread.submit(_run, recorder, program).result()


def test_numbers_may_come_as_floats(recorder: Recorder) -> None:
    """Integers that Pulumi hands over as floats are taken (C24)."""
    assert declare(recorder, nodes=4.0)[1]["machines"]["spec"]["nodes"] == 4


def test_a_wrong_field_fails_the_program(recorder: Recorder) -> None:
    """One node is refused while the program runs, before any resource is made (C1)."""
    with pytest.raises(SpecError, match="nodes"):
        declare(recorder, nodes=1)
    assert "demo-machines" not in recorder.seen


def test_a_set_up_script_is_a_step_of_its_own(recorder: Recorder, tmp_path: Path) -> None:
    """A script is a resource between software and check, and what tells of it is a secret of the stack (C9, X4)."""
    (tmp_path / "setup.sh").write_text("echo hunter2\n")
    _, documents = declare(recorder, setup=str(tmp_path / "setup.sh"))
    assert list(documents) == ["machines", "join", "storage", "software", "setup", "check"]
    assert documents["setup"]["script"] == "echo hunter2\n"
    assert [step for step, document in documents.items() if "hunter2" in json.dumps(document)] == ["setup"]
    secret = [name for name, args in recorder.seen.items() if isinstance(args.inputs.get("stdin"), dict)]
    assert secret == ["demo-setup", "demo-check"]


def test_a_script_that_is_not_there_fails_the_program(recorder: Recorder) -> None:
    """A script that can't be read is refused while the program runs, before any resource is made (C9)."""
    with pytest.raises(SpecError, match=r"setup: /nowhere/setup\.sh"):
        declare(recorder, setup="/nowhere/setup.sh")
    assert "demo-machines" not in recorder.seen


@pytest.mark.parametrize("stack", sorted(path.name for path in STACKS.iterdir()))
def test_a_stack_takes_pulumi_configuration(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, stack: str) -> None:
    """`pulumi config set` gives a ready stack another name, number of nodes and machine (C24)."""
    monkeypatch.chdir(STACKS / stack)
    machine = {"cpus": 2, "memory": "4GiB", "gpus": 2}
    told = {"name": "mine", "nodes": "3", "machine": json.dumps(machine)}

    def program() -> None:
        pulumi.runtime.set_all_config({f"lab:{key}": value for key, value in told.items()})
        runpy.run_path("__main__.py")

    with ThreadPoolExecutor(1) as thread:
        thread.submit(_run, recorder, program).result()
    spec = json.loads(recorder.seen["mine-machines"].inputs["stdin"])["spec"]
    assert (spec["nodes"], spec["machine"]["gpus"], spec["machine"]["memory"]) == (3, 2, 4 * 2**30)
    assert spec["software"] == stack.removeprefix("local-")
