"""Kubernetes on two real virtual machines: what a user does with it, from this computer, and what reboots do."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.artifacts.build.fill import fill
from runcrate_iac.machines.local import LocalProvider
from runcrate_iac.model.artifacts import KUBERNETES_BIN
from runcrate_iac.model.network import Machine, plan
from runcrate_iac.model.progress import Outcome, Step
from runcrate_iac.model.spec import Software
from runcrate_iac.specfile import load
from tests.hosts.conftest import Cluster, Computer, again
from tests.machines import listed

pytestmark = pytest.mark.kubernetes

EXAMPLE = Path(__file__).parents[2] / "examples/kubernetes/job.yaml"
TOOLS = "runcrate.local/tools:1"
"""The artifact directory's image with a shell."""
MACHINE = {"gpu": "H100", "gpus": 8, "cpus": 2, "memory": "3GiB"}
BACK_SECONDS = 900.0
"""After a reboot, without KVM and on a busy computer."""


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact directory with Kubernetes, from this computer's cache."""
    directory = tmp_path_factory.mktemp("artifacts")
    fill(directory, Software.KUBERNETES, lambda message, node: print(message))
    return directory


@pytest.fixture(scope="module")
def spec(computer: Computer, artifacts: Path) -> Path:
    """The cluster's spec file."""
    return computer.spec(name="kube", software="kubernetes", machine=MACHINE, artifacts=str(artifacts))


@pytest.fixture(scope="module")
def kube(computer: Computer, spec: Path) -> Iterator[Cluster]:
    """Two virtual machines with Kubernetes, ready; gone afterwards."""
    done = computer.run("up", spec, "--yes")
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    machines = [Machine.model_validate(machine) for machine in computer.status("kube")["machines"]]
    yield Cluster("kube", computer, plan(machines), done.stdout + done.stderr)
    assert computer.run("down", "kube", "--yes").returncode == 0


@pytest.fixture(scope="module")
def kubectl(kube: Cluster, artifacts: Path) -> Callable[..., str]:
    """Kubectl on this computer, with the file that `runcrate-iac kubeconfig` writes."""
    file = kube.computer.home / "kube.kubeconfig"
    done = kube.computer.run("kubeconfig", "kube", "--write", file)
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert "key-data" not in file.read_text()

    def one(*words: str, given: str | None = None, check: bool = True) -> str:
        command = [str(artifacts / KUBERNETES_BIN / "kubectl"), "--kubeconfig", str(file), *words]
        env = os.environ | {"RUNCRATE_IAC_HOME": "/nowhere"}
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=600, check=False, env=env)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout

    return one


@pytest.fixture
def software(kube: Cluster, spec: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Outcome]:
    """Runs the software step again, as it is."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(kube.computer.home))

    return lambda: again(kube, Step.SOFTWARE, load(spec), BACK_SECONDS)


def nodes(kubectl: Callable[..., str]) -> dict[str, tuple[str, str, str]]:
    """Per node its Ready condition, its address and its allocatable GPUs; nothing while the API server is away."""
    found: dict[str, Any] = json.loads(kubectl("get", "nodes", "-o", "json", check=False) or '{"items": []}')
    return {
        node["metadata"]["name"]: (
            next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"),
            next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP"),
            node["status"]["allocatable"].get("nvidia.com/gpu", "none"),
        )
        for node in found["items"]
    }


def ready(many: int) -> dict[str, tuple[str, str, str]]:
    """What :func:`nodes` says of a cluster that is well."""
    return {f"node-{index}": ("True", f"10.77.0.{index + 1}", "8") for index in range(many)}


READY = ready(2)


def eventually(kubectl: Callable[..., str], seconds: float = BACK_SECONDS) -> None:
    """Wait until both nodes are Ready with their GPUs."""
    deadline = time.monotonic() + seconds
    while (found := nodes(kubectl)) != READY:
        assert time.monotonic() < deadline, found
        time.sleep(3)


def test_every_node_is_ready_and_a_pod_with_a_gpu_ran_on_each(kube: Cluster, kubectl: Callable[..., str]) -> None:
    """Seen from this computer: nodes Ready on 10.77.0.x with 8 GPUs; the check's pods reached each other (C6, X3)."""
    assert nodes(kubectl) == READY
    conditions = kube.computer.status("kube")["conditions"]
    reached = {one["node"]: (one["status"], one["reason"]) for one in conditions if one["type"] == "PodsReach"}
    assert reached == {"node-0": ("true", "Reached"), "node-1": ("true", "Reached")}
    kubectl("wait", "--for=delete", "namespace", "--selector=runcrate.dev/check", "--timeout=180s")


def test_daemons_listen_on_private_addresses_only(kube: Cluster) -> None:
    """API server, etcd and kubelets listen on 10.77.0.x or loopback (F25)."""
    for index in (0, 1):
        listening = [line.split()[3] for line in kube.node(index).check_output("ss -Hltn").splitlines()]
        outside = [one for one in listening if not one.startswith(("127.", "10.77.0.", "[::1]", "10.0.2."))]
        assert [one for one in outside if not one.endswith(":22")] == [], listening


def test_the_example_job_runs_on_both_nodes(kubectl: Callable[..., str]) -> None:
    """The example's processes run on a node each, find each other by name and share a folder of /shared (C19, C23)."""
    kubectl("apply", "-f", "-", given=EXAMPLE.read_text().replace("image: busybox", f"image: {TOOLS}"))
    kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=300s")
    said = kubectl("logs", "-l", "job-name=hello", "--tail=-1").splitlines()
    words = [line.split() for line in said]
    assert {(line[1], line[6]) for line in words} == {("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")}
    assert {line[3] for line in words} == {"node-0", "node-1"}
    kubectl("delete", "-f", str(EXAMPLE), "--timeout=120s")


def test_volumes_go_with_their_claims(kube: Cluster) -> None:
    """The folder of a claim that was deleted is removed from /shared (C19)."""
    deadline = time.monotonic() + 120
    while kube.ssh("node-0", "ls /shared/volumes/default").strip():
        assert time.monotonic() < deadline
        time.sleep(2)


def test_gpus_come_back_after_the_kubelet_starts_over(kube: Cluster, kubectl: Callable[..., str]) -> None:
    """Simulated GPUs that a new kubelet doesn't know of are told again (C6)."""
    none = '{"status": {"capacity": {"nvidia.com/gpu": "0"}, "allocatable": {"nvidia.com/gpu": "0"}}}'
    kube.node(1).check_output("systemctl restart kubelet.service")
    kubectl("patch", "node", "node-1", "--subresource=status", "--type=merge", "-p", none)
    eventually(kubectl, 120)


def test_a_second_run_changes_nothing(software: Callable[[], Outcome]) -> None:
    """The software step on nodes that have it changes no file and starts no service over (C4)."""
    outcome = software()
    assert (outcome.ok, outcome.changed) == (True, False), outcome


def test_a_worker_that_lost_its_state_joins_again(
    kube: Cluster, software: Callable[[], Outcome], kubectl: Callable[..., str]
) -> None:
    """A worker without its kubelet's state joins again under its name, with a fresh token (F23, G38)."""
    kube.node(1).check_output("kubeadm reset --force 2> /dev/null && rm -rf /etc/kubernetes")
    assert software().ok
    assert nodes(kubectl) == READY


def test_everything_is_back_after_both_nodes_reboot(kube: Cluster, kubectl: Callable[..., str]) -> None:
    """After a reboot of worker and head the nodes are Ready with their GPUs, and a check passes (F19, F20)."""
    for index in (0, 1):
        kube.ssh(f"node-{index}", "sudo systemctl --no-block reboot", check=False)
    time.sleep(20)
    eventually(kubectl)
    done = kube.computer.run("status", "kube", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


SLEEPERS = f"""
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: sleepers}}
spec:
  selector: {{matchLabels: {{app: sleepers}}}}
  template:
    metadata: {{labels: {{app: sleepers}}}}
    spec: {{containers: [{{name: one, image: "{TOOLS}", command: [sleep, infinity]}}]}}
"""


def sleepers(kubectl: Callable[..., str]) -> dict[str, tuple[str, int]]:
    """The pods that do nothing: per node, which it is and how often it was started over."""
    found = json.loads(kubectl("get", "pods", "-l", "app=sleepers", "-o", "json"))["items"]
    return {
        pod["spec"]["nodeName"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for pod in found
    }


def test_a_machine_that_is_gone_is_replaced(
    kube: Cluster, kubectl: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`retry` makes another node-1 that Kubernetes has under its name; what ran there is started there again (X5)."""
    kubectl("apply", "-f", "-", given=SLEEPERS)
    kubectl("rollout", "status", "daemonset/sleepers", "--timeout=300s")
    computer, provider, before = kube.computer, LocalProvider(), sleepers(kubectl)
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(computer.home))
    lost = listed(provider, computer.status("kube")["cluster_id"])[1]
    asyncio.run(provider.delete(lost, lambda message, node: None))
    done = computer.run("retry", "kube")
    assert done.returncode == 0, done.stdout + done.stderr
    assert nodes(kubectl) == READY
    kubectl("rollout", "status", "daemonset/sleepers", "--timeout=300s")
    after = sleepers(kubectl)
    assert [node for node in after if after[node] != before[node]] == ["node-1"]


def test_a_running_cluster_grows(computer: Computer, kubectl: Callable[..., str], artifacts: Path) -> None:
    """A third node is added with its GPUs and a pod of every DaemonSet; pods of the old nodes go on (C6, C11, G38)."""
    before = sleepers(kubectl)
    larger = computer.spec(name="kube", nodes=3, software="kubernetes", machine=MACHINE, artifacts=str(artifacts))
    done = computer.run("up", larger, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert nodes(kubectl) == ready(3)
    kubectl("rollout", "status", "daemonset/sleepers", "--timeout=300s")
    after = sleepers(kubectl)
    assert {node: after[node] for node in before} == before
    assert set(after) == {"node-0", "node-1", "node-2"}
