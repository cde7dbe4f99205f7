"""One real cluster for all tests of this ring, brought up by the command line as a user would."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import testinfra
import yaml
from testinfra.host import Host

from runcrate_iac.engine import install
from runcrate_iac.machines.local import LocalProvider
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.model.progress import Event, Outcome, Step
from runcrate_iac.model.spec import ClusterSpec, parse
from runcrate_iac.provision.job import Job
from runcrate_iac.provision.run import log_file, run

RUN = (sys.executable, "-c", "from runcrate_iac.cli import main; main()")
SPEC: dict[str, Any] = {"name": "demo", "nodes": 2, "software": "slurm", "machine": {"gpu": "H100", "gpus": 8}}


@dataclass(frozen=True)
class Computer:
    """A computer of its own: a state folder, and the commands that use it."""

    home: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """The environment of its commands."""
        return os.environ | {"RUNCRATE_IAC_HOME": str(self.home)}

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start a command of ours."""
        pipe = subprocess.PIPE
        process = subprocess.Popen([*RUN, *map(str, words)], env=self.env, stdout=pipe, stderr=pipe, text=True)
        self.started.append(process)
        return process

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of ours to its end."""
        process = self.start(*words)
        stdout, stderr = process.communicate(timeout=1800)
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def spec(self, **fields: Any) -> Path:
        """A spec file."""
        document = SPEC | fields
        path = self.home / f"{document['name']}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(document))
        return path

    def status(self, name: str) -> dict[str, Any]:
        """What `status` tells of a cluster."""
        found: dict[str, Any] = json.loads(self.run("status", name, "--json").stdout)
        return found

    def leftovers(self, name: str) -> list[str]:
        """Every process and file that still belongs to a cluster's machines."""
        running = [
            f"process {process.pid}"
            for process in psutil.process_iter(["name", "cmdline"])
            if "qemu" in (process.info["name"] or "") and f"guest={name}-" in " ".join(process.info["cmdline"] or [])
        ]
        return running + [str(path) for path in (self.home / "machines").glob(f"{name}-*")]


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up."""

    name: str
    computer: Computer
    plan: NetworkPlan
    said: str
    """What `up` printed."""

    @property
    def ssh_config(self) -> Path:
        """The ssh configuration that everything uses."""
        return self.computer.home / "clusters" / self.name / "ssh_config"

    def node(self, index: int, *, sudo: bool = True) -> Host:
        """Testinfra's view of a node, over one shared connection."""
        control = f"-o ControlMaster=auto -o ControlPersist=30 -o ControlPath={self.computer.home}/%n.ssh"
        return testinfra.get_host(
            f"ssh://node-{index}", ssh_config=str(self.ssh_config), ssh_extra_args=control, sudo=sudo
        )

    def ssh(self, node: str, command: str, *, timeout: float = 300, check: bool = True) -> str:
        """Run a command on a node as the login user; its output."""
        words = ["ssh", "-F", str(self.ssh_config), node, command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def any_computer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Computer]:
    """A computer on which nothing is up, with a Pulumi; nothing of ours runs on it afterwards."""
    assert install.find() or install.install(lambda message, node: None)
    found = Computer(tmp_path_factory.mktemp("runcrate"))
    yield found
    for process in found.started:
        process.kill()
        process.communicate()
    for path in (found.home / "clusters").glob("*"):
        found.run("down", path.name, "--yes")
    shutil.rmtree(found.home)


@pytest.fixture(scope="session")
def computer(any_computer: Computer) -> Computer:
    """That computer, with an image of virtual machines."""
    LocalProvider().prepare(parse(SPEC).machine, None, lambda message, node: None)
    return any_computer


@pytest.fixture(scope="session")
def cluster(computer: Computer) -> Cluster:
    """Two real virtual machines with Slurm, ready."""
    done = computer.run("up", computer.spec(), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    machines = [Machine.model_validate(machine) for machine in computer.status("demo")["machines"]]
    return Cluster("demo", computer, plan(machines), done.stdout + done.stderr)


@pytest.fixture(scope="session")
def cluster_plan(cluster: Cluster) -> NetworkPlan:
    """The private network's plan of that cluster."""
    return cluster.plan


def show(event: Event) -> None:
    """Print what happens."""
    print(event.node or "", event.message)


def join(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, seconds: float = 300, told: Callable[[Event], None] = show
) -> Outcome:
    """Join the nodes again, as they are."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(cluster.computer.home))
    return again(cluster, Step.JOIN, parse(SPEC), seconds, told)


def again(
    cluster: Cluster, step: Step, spec: ClusterSpec, seconds: float, told: Callable[[Event], None] = show
) -> Outcome:
    """Run one step again on the nodes, as they are, by this process's own state folder; its log is printed."""
    job = Job(
        step=step,
        cluster_id=cluster.name,
        spec=spec,
        plan=cluster.plan,
        ssh_config=cluster.ssh_config,
        deadline=time.time() + seconds,
    )
    outcome = run(job, told)
    print(log_file(job).read_text())
    return outcome


def reasons(outcome: Outcome) -> set[tuple[str | None, str]]:
    """Node and reason of each condition."""
    return {(condition.node, condition.reason) for condition in outcome.conditions}


def answers(port: int) -> bool:
    """Whether something listens on this port of this computer."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
