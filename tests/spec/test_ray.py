"""What Ray's answers mean, and what starts it on a node: pure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runcrate_iac.components.documents import relevant
from runcrate_iac.errors import SpecError
from runcrate_iac.model.conditions import broken, sentence
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.model.progress import Step
from runcrate_iac.model.ray import AGENT_PORTS
from runcrate_iac.model.spec import parse
from runcrate_iac.provision import ray
from runcrate_iac.render import render

BOTH = ["node 10.77.0.1 2 8", "node 10.77.0.2 2 8"]
VALUES = {
    "venv": "/v",
    "command": "/c",
    "port": 6379,
    "dashboard_port": 8265,
    "agent_ports": AGENT_PORTS,
    "simulated": "simulated_gpu",
}


def network(*, simulated: bool = True) -> NetworkPlan:
    """Two machines."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}", gpus_simulated=simulated) for i in range(2)])


def start(index: int, *, simulated: bool = True) -> str:
    """The program that starts Ray on a node."""
    nodes = network(simulated=simulated)
    node = nodes.nodes[index]
    return render("ray/start.sh.j2", node=node, head=nodes.head, is_head=index == 0, gpus=8, **VALUES)


def facts(lines: list[str], gpus: int = 8) -> list[tuple[str | None, str, str]]:
    """Node, reason and message of what is wrong."""
    found = broken(ray.alive(network().nodes, lines, gpus))
    return [(fault.node, fault.reason, fault.message) for fault in found]


def test_every_node_is_alive_with_its_gpus() -> None:
    """Two nodes with the declared GPUs are ready; a node more that nobody asked for does not hurt (C6)."""
    assert facts(BOTH) == []
    assert facts([*BOTH, "node 10.77.0.9 1 0"]) == []


def test_a_node_that_ray_does_not_have_is_named() -> None:
    """The fault names the missing node and no other (C6, X5)."""
    assert facts(BOTH[:1]) == [("node-1", "NotAlive", "Ray's cluster does not have node-1")]


def test_a_node_with_fewer_gpus_is_named_with_both_counts() -> None:
    """7 of 8 GPUs is never ready (F22)."""
    assert facts([BOTH[0], "node 10.77.0.2 2 7"]) == [("node-1", "WrongGpuCount", "Ray has node-1 with 7 of 8 GPUs")]


def test_a_dashboard_without_answer_is_the_heads_fault_alone() -> None:
    """Where the head does not answer nothing is said of the workers (X5)."""
    said = "no answer from the dashboard at http://10.77.0.1:8265: refused"
    assert facts([f"error {said}"]) == [("node-0", "NoDashboard", said)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["task 10.77.0.1 0", "task 10.77.0.2 -"], []),
        (["task 10.77.0.1 0"], ["no task ran on node-1: it did not end in time"]),
        (["task 10.77.0.1 0", "failed 10.77.0.2 no space left"], ["no task ran on node-1: no space left"]),
        (["Traceback", "E: no cluster"], [f"no task ran on node-{index}: E: no cluster" for index in range(2)]),
    ],
)
def test_a_task_runs_on_every_node(lines: list[str], expected: list[str]) -> None:
    """A node on which no task ran is named, with Ray's reason where it gave one (C6, X5)."""
    found = broken(ray.tasks(network().nodes, [*BOTH, *lines]))
    assert [fault.message for fault in found] == expected


def test_a_fault_ends_with_the_services_log() -> None:
    """What a user reads has the node, the fact, the service's state, its last lines and a remedy (X5)."""
    (fault,) = broken(ray.alive(network().nodes, BOTH[:1], 8))
    said = sentence(ray.explained(fault, ["activating", "one", "two", "", "three", "raylet exited"]))
    end = "runcrate-ray.service is activating, its log ends with: two / three / raylet exited"
    assert said.startswith(f"Ray's cluster does not have node-1; {end} — remedy: ")
    assert "is unknown" in ray.explained(fault, []).message


def test_the_head_and_a_worker_start_on_private_addresses() -> None:
    """Both announce their address of 10.77.0.0/24; only the head has the dashboard, bound to it (X4)."""
    head, worker = start(0), start(1)
    assert "--head --port 6379 --dashboard-host 10.77.0.1 --dashboard-port 8265 --disable-usage-stats" in head
    assert "--node-ip-address 10.77.0.1\n" in head
    assert "--address 10.77.0.1:6379 " in worker
    assert "--node-ip-address 10.77.0.2\n" in worker
    assert "--head" not in worker


def test_agents_have_given_ports() -> None:
    """No agent chooses its port, since the raylet aborts where that takes more than 15 seconds (C6)."""
    for option in ("dashboard-agent-grpc", "dashboard-agent-listen", "runtime-env-agent", "metrics-export"):
        assert f"--{option}-port {AGENT_PORTS[option]} " in start(1)


@pytest.mark.parametrize("simulated", [True, False])
def test_simulated_gpus_say_so(simulated: bool) -> None:
    """A node's simulated GPUs are counted as GPUs and as `simulated_gpu`; real ones only as GPUs (C6)."""
    text = start(1, simulated=simulated)
    assert "--num-gpus 8 " in text
    assert ("""--resources '{"simulated_gpu": 8}'""" in text) is simulated


@pytest.mark.parametrize("index", [0, 1])
def test_the_start_is_a_program_of_the_shell(index: int) -> None:
    """The rendered program is one that a POSIX shell understands whole (C6)."""
    subprocess.run(["sh", "-n"], input=start(index), text=True, check=True)


def test_no_answer_is_an_error_line() -> None:
    """The program that asks for the nodes says in one line that nothing answers, and ends in its time (X5)."""
    command = [sys.executable, "-c", render("ray/nodes.py"), "http://127.0.0.1:1", "0", "8", "10.77.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    (line,) = done.stdout.splitlines()
    assert line.startswith("error no answer from the dashboard at http://127.0.0.1:1: ")


@pytest.mark.parametrize("machine", [{}, {"memory": "1GiB"}])
def test_a_virtual_machine_too_small_for_ray_is_refused(machine: dict[str, str]) -> None:
    """A machine that can't hold the head's processes is refused in the spec, the default one too (C6)."""
    with pytest.raises(SpecError, match="machine: memory: `software: ray` needs at least 2GiB"):
        parse({"name": "demo", "software": "ray", **({"machine": machine} if machine else {})})
    assert parse({"name": "demo", "software": "ray", "machine": {"kind": "container"}})


@pytest.mark.parametrize("step", [Step.SOFTWARE, Step.CHECK])
def test_machines_of_the_users_own_are_what_they_are(step: Step) -> None:
    """Of given machines the spec does not know the memory, and no step refuses them for it (C6)."""
    spec = parse({"name": "demo", "software": "ray", "provider": "given"})
    assert relevant(spec, step).provider == "given"


@pytest.mark.parametrize(
    ("available", "shm", "bytes_"),
    [(4_000_000, 1 << 40, 1_228_000_000), (67_108_864, 1 << 40, 20_602_421_248), (67_108_864, 100, 92_100)],
)
def test_ray_keeps_objects_in_shared_memory(tmp_path: Path, available: int, shm: int, bytes_: int) -> None:
    """Three tenths of the free memory, at most nine of /dev/shm, as a whole number in every awk (C6)."""
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {available} kB\n")
    lines = start(0).partition("bytes=")[2].partition("# Logs and spilled")[0]
    text = f"bytes={lines}".replace("/proc/meminfo", f"{tmp_path}/meminfo")
    text = f"df() {{ echo Avail; echo {shm}; }}\n{text}echo $bytes\n"
    done = subprocess.run(["sh", "-s"], input=text, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{bytes_}\n", "")
