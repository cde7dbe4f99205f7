"""Ray on real container machines: what a user runs, what an admin looks at, and what faults do."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcrate_iac import paths
from runcrate_iac.artifacts.build.fill import fill
from runcrate_iac.model.conditions import broken
from runcrate_iac.model.network import Machine, plan
from runcrate_iac.model.progress import Outcome, Step
from runcrate_iac.model.spec import Software, parse
from runcrate_iac.model.versions import NODE_PYTHON, RAY
from runcrate_iac.provision.job import Job
from runcrate_iac.provision.run import log_file, run
from tests.hosts.conftest import Cluster, Computer, answers
from tests.hosts.own import LOOK, changes, lent
from tests.machines import until

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(os.geteuid() != 0, reason="containers need root")]

FAN_OUT = (Path(__file__).parents[2] / "examples/ray/fan_out.py").read_text()
SHAPE = {"kind": "container", "gpu": "H100", "gpus": 4}

BEATS = """
import os, time, ray
ray.init()

@ray.remote(num_gpus=1, scheduling_strategy="SPREAD")
class Actor:
    def where(self):
        return ray.util.get_node_ip_address(), os.getpid()

actors = [Actor.remote() for _ in range(2)]
while True:
    print("actors", ray.get([actor.where.remote() for actor in actors]), flush=True)
    time.sleep(0.5)
"""
"""A job without an end: two actors, on two nodes, that say where they are and as which process."""
TRACES = r"""
find /opt /tmp /home /root /dev/shm /var/lib/runcrate-ray ! -path '*/systemd-private-*' ! -path '*/pymp-*' \
  -printf '%p %y %m %u:%g %l\n' 2> /dev/null | sort
cat /etc/passwd /etc/group
processes=$(ps -eo user,args --no-headers)
echo "$processes" | grep -Ev ' (\(sd-pam\)|.*/systemd --user)$' | sort
"""
"""Where Ray and its jobs leave something, in addition to LOOK. pymp-*: what multiprocessing of a killed Python leaves;
a login's own processes end some seconds after it."""


@pytest.fixture(scope="module")
def artifacts() -> Path:
    """An artifact directory with Ray's wheels, downloaded once for all runs on this computer."""
    folder = paths.cache_dir() / "tests" / f"ray-{RAY}-python-{NODE_PYTHON}"
    fill(folder, Software.RAY, lambda message, node: print(message))
    return folder


@pytest.fixture(scope="module")
def rays(any_computer: Computer, artifacts: Path) -> Cluster:
    """Two container machines with Ray, ready."""
    spec = any_computer.spec(name="rays", software="ray", machine=SHAPE, artifacts=str(artifacts))
    done = any_computer.run("up", spec, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    machines = [Machine.model_validate(one) for one in any_computer.status("rays")["machines"]]
    return Cluster("rays", any_computer, plan(machines), done.stdout + done.stderr)


@pytest.fixture
def forward(rays: Cluster) -> Iterator[str]:
    """The dashboard's address on this computer, by the command that `up` prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = rays.computer.start("ssh", "rays", "-N", "-L", f"{port}:node-0:8265")
    until(lambda: answers(port), "the forwarded port", 60)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate()


def ask(url: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
    """What Ray's API for jobs answers."""
    body = json.dumps(document).encode() if document else None
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found


def step(rays: Cluster, artifacts: Path, wanted: Step) -> Outcome:
    """Run one step again, as it is."""
    spec = parse({"name": "rays", "software": "ray", "machine": SHAPE, "artifacts": str(artifacts)})
    fields = {"cluster_id": "rays", "plan": rays.plan, "ssh_config": rays.ssh_config, "deadline": time.time() + 400}
    job = Job.model_validate({"step": wanted, "spec": spec, **fields})
    outcome = run(job, lambda event: print(event.node or "", event.message))
    print(log_file(job).read_text())
    return outcome


@pytest.fixture(autouse=True)
def _home(any_computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(any_computer.home))


def is_whole(rays: Cluster) -> bool:
    """Whether `ray status` on the head has both nodes with all GPUs."""
    return "/8.0 GPU" in rays.ssh("node-0", "ray status", check=False)


def test_ready_means_every_node_with_its_gpus(rays: Cluster) -> None:
    """`ray status` on either node lists both, all CPUs and GPUs, and says that these are simulated (C6)."""
    for node in ("node-0", "node-1"):
        said = rays.ssh(node, "ray status")
        assert len(re.findall(r"^ 1 node_", said, re.MULTILINE)) == 2
        totals = {line.split("/")[1] for line in said.splitlines() if re.match(r" \d[^ ]*/", line)}
        assert {"8.0 GPU", "8.0 simulated_gpu", f"{2 * (os.cpu_count() or 1)}.0 CPU"} <= totals
    assert "ssh rays -N -L 8265:node-0:8265" in rays.said
    assert "http://127.0.0.1:8265" in rays.computer.run("status", "rays").stdout.replace("\n", "")


def test_a_job_from_this_computer_runs_on_all_nodes(forward: str) -> None:
    """The example, submitted through SSH alone, runs tasks on both nodes, with a GPU where one is asked for (C6)."""
    entrypoint = f"python -c {shlex.quote(FAN_OUT)}"
    job = ask(f"{forward}/api/jobs/", {"entrypoint": entrypoint})["submission_id"]
    ended = ("SUCCEEDED", "FAILED", "STOPPED")
    until(lambda: ask(f"{forward}/api/jobs/{job}")["status"] in ended, "the job's end", 180)
    logs = ask(f"{forward}/api/jobs/{job}/logs")["logs"]
    assert ask(f"{forward}/api/jobs/{job}")["status"] == "SUCCEEDED", logs
    assert "2 nodes, 8 GPUs\n" in logs
    assert sum(int(count) for count in re.findall(r" ran (\d+) tasks", logs)) == 100
    assert re.findall(r"(10\.77\.0\.\d+) has GPU \d", logs) == ["10.77.0.1", "10.77.0.2"]


def test_nothing_of_ray_answers_outside_the_private_network(rays: Cluster) -> None:
    """Of all ports that a node listens on, another computer reaches SSH's alone (X4)."""
    for node in rays.plan.nodes:
        listening = rays.ssh(node.name, "sudo ss -Hltn").splitlines()
        ports = {int(line.split()[3].rpartition(":")[2]) for line in listening}
        assert {22, 8266, 8267, 8268, 8269} <= ports
        reached = [port for port in sorted(ports) if _reaches(node.machine.host, port)]
        assert reached == [22]


def _reaches(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((host, port)) == 0


def test_a_second_run_changes_nothing(rays: Cluster, artifacts: Path) -> None:
    """The software step on nodes that have Ray copies, installs and restarts nothing (C4)."""
    before = [rays.ssh(node.name, "systemctl show -P InvocationID runcrate-ray") for node in rays.plan.nodes]
    outcome = step(rays, artifacts, Step.SOFTWARE)
    assert (outcome.ok, outcome.changed) == (True, False), outcome
    assert before == [rays.ssh(node.name, "systemctl show -P InvocationID runcrate-ray") for node in rays.plan.nodes]


def test_a_node_without_ray_is_named_with_its_log(rays: Cluster, artifacts: Path) -> None:
    """The check names the node whose service is stopped, with its last lines; the software step mends it (X5)."""
    rays.ssh("node-1", "sudo systemctl stop runcrate-ray")
    faults = [fault for fault in broken(step(rays, artifacts, Step.CHECK).conditions) if fault.type == "RayAlive"]
    assert [(fault.node, fault.reason) for fault in faults] == [("node-1", "NotAlive")]
    assert re.search(r"runcrate-ray.service is (inactive|failed), its log ends with: .*Stopped", faults[0].message)
    assert step(rays, artifacts, Step.SOFTWARE).ok


def test_half_an_environment_is_replaced(rays: Cluster, artifacts: Path) -> None:
    """An environment whose installation did not get to its end is made again, whole (X5)."""
    venv = "/opt/runcrate/ray"
    rays.ssh("node-1", f"sudo rm -rf {venv}/installed {venv}/lib/python*/site-packages/grpc")
    assert step(rays, artifacts, Step.SOFTWARE).ok
    rays.ssh("node-1", f"{venv}/bin/python -c 'import grpc'")
    assert rays.ssh("node-1", "ls /var/lib/runcrate/wheels 2> /dev/null", check=False) == ""
    assert step(rays, artifacts, Step.CHECK).ok


@pytest.mark.parametrize(
    ("node", "fault"),
    [
        ("node-1", "sudo pkill -9 raylet"),
        ("node-0", "sudo pkill -9 gcs_server"),
        ("node-1", "sudo systemctl reboot"),
        ("node-0", "sudo systemctl reboot"),
    ],
)
def test_everything_is_back_by_itself(rays: Cluster, artifacts: Path, node: str, fault: str) -> None:
    """After the end of a process and after a reboot, of a worker and of the head, all nodes run tasks again (F20)."""
    unit = "systemctl show -P InvocationID runcrate-ray"
    before = rays.ssh(node, unit)
    rays.ssh(node, fault, check=False)
    until(lambda: rays.ssh(node, unit, check=False) not in ("", before), "the service is started again")
    until(lambda: is_whole(rays), "both nodes are back")
    assert step(rays, artifacts, Step.CHECK).ok
    assert rays.ssh(node, "systemctl --failed --no-legend") == ""


def test_a_cluster_grows_under_a_job(rays: Cluster, forward: str) -> None:
    """From 2 to 3 nodes: actors and services of the old ones go on, and the ledger has the new one's moment (C11)."""
    computer, unit = rays.computer, "systemctl show -P InvocationID runcrate-ray"
    before = [rays.ssh(node.name, unit) for node in rays.plan.nodes]
    job = ask(f"{forward}/api/jobs/", {"entrypoint": f"python -c {shlex.quote(BEATS)}"})["submission_id"]
    until(lambda: len(beats(forward, job)) > 1, "the actors run", 120)
    document = yaml.safe_load((computer.home / "rays.yaml").read_text()) | {"nodes": 3}
    done = computer.run("up", computer.spec(**document), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = len(beats(forward, job))
    until(lambda: len(beats(forward, job)) > seen, "the actors go on", 60)
    assert len(set(beats(forward, job))) == 1, "the actors are others"
    assert before == [rays.ssh(node.name, unit) for node in rays.plan.nodes]
    assert "/12.0 GPU" in rays.ssh("node-2", "ray status")
    told = json.loads(computer.run("events", "rays", "--json").stdout)
    assert [one["data"]["node"] for one in told if one["type"] == "node_joined"] == ["node-2"]
    assert "nothing to change" in computer.run("up", computer.spec(**document), "--yes").stdout


def beats(url: str, job: str) -> list[str]:
    """What the actors answered, each time."""
    return re.findall(r"^actors (\[\(.*)$", ask(f"{url}/api/jobs/{job}/logs")["logs"], re.MULTILINE)


def test_ones_own_machines_are_left_without_a_trace_of_ray(
    any_computer: Computer, artifacts: Path, tmp_path: Path
) -> None:
    """Leaving ends Ray and what its jobs started; its environment, files, units and ports are gone (C7, C22)."""
    with lent("ownrays", 2, any_computer, tmp_path) as machines:
        own = replace(machines, artifacts=artifacts)
        before = own.each(LOOK + TRACES)
        document = own.reserve(seconds=300, software="ray")
        for wanted in (Step.JOIN, Step.SOFTWARE):
            own.run("provision", wanted, document(wanted))
        submit = "ray job submit --no-wait --address http://node-0:8265 --"
        own.shell(0, f"runuser -u runcrate -- {submit} setsid sleep 1000")
        until(lambda: own.shell(0, "pgrep -fx 'sleep 1000' || :"), "the job runs")
        own.run("provision", "leave", document(Step.JOIN))
        assert changes(before, own.each(LOOK + TRACES)) == []
