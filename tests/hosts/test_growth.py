"""Growth and replacement on real container machines, under a job that runs on the old nodes all the time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runcrate_iac.machines.local import LocalProvider
from runcrate_iac.machines.step import request_for
from runcrate_iac.model.network import Machine, MachineState, plan
from runcrate_iac.specfile import load
from tests.hosts.conftest import Cluster, Computer
from tests.machines import listed, reserve, until

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(os.geteuid() != 0, reason="containers need root")]
SHAPE = {"kind": "container", "gpu": "H100", "gpus": 8}
JOB = "sbatch --parsable -N 2 -o /tmp/job.out --wrap 'while [ ! -e /tmp/enough ]; do srun sleep 1; done; srun hostname'"


def spec(computer: Computer, nodes: int) -> Path:
    """The spec file with so many nodes."""
    return computer.spec(name="herd", nodes=nodes, machine=SHAPE)


def up(computer: Computer, nodes: int) -> str:
    """Run `up` to its good end; what it printed."""
    done = computer.run("up", spec(computer, nodes), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def as_it_is(computer: Computer) -> Cluster:
    """The cluster with the machines that it has now."""
    machines = [Machine.model_validate(one) for one in computer.status("herd")["machines"]]
    return Cluster("herd", computer, plan(machines), "")


def everywhere(herd: Cluster, command: str) -> list[str]:
    """What the command prints on each node."""
    return [herd.ssh(node.name, command).strip() for node in herd.plan.nodes]


def keys(herd: Cluster, node: str) -> list[str]:
    """The public keys by which the others know a node: its WireGuard's, its host's, its root's."""
    files = "/etc/ssh/ssh_host_ed25519_key.pub ~root/.ssh/id_runcrate.pub"
    said = herd.ssh(node, f"sudo sh -c 'wg show wg-runcrate public-key; cut -d \" \" -f 2 {files}'")
    return said.split()


@pytest.fixture(scope="module")
def herd(any_computer: Computer) -> Iterator[Cluster]:
    """Two container machines with Slurm, and a job that runs on both until it is told to end."""
    up(any_computer, 2)
    found = as_it_is(any_computer)
    assert found.ssh("node-0", JOB).strip().isdigit()
    until(lambda: found.ssh("node-0", "squeue -h -t R -o %D").strip() == "2", "the job runs", 120)
    yield found
    any_computer.run("down", "herd", "--yes")


def test_an_interrupted_growth_leaves_no_trace(herd: Cluster) -> None:
    """Ctrl-C while all join: exit 3, the new machine is gone, no old node knows it, and the job goes on (C8, F10)."""
    started = herd.ssh("node-0", "squeue -h -t R -o %S")
    process = herd.computer.start("up", spec(herd.computer, 3), "--yes")
    news = herd.computer.home / "clusters" / "herd" / "progress.jsonl"
    end = news.stat().st_size
    until(lambda: "WireGuard, firewall, SSH" in news.read_text()[end:], "the nodes are told of one another", 300)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 3, stderr
    assert "released 1 of 1 machines that were to be added" in stderr
    status = herd.computer.status("herd")
    assert (status["state"], list(status["machine_states"])) == ("ready", ["node-0", "node-1"])
    assert everywhere(herd, "cat /etc/hosts /etc/ssh/ssh_known_hosts | grep -c node-2 || :") == ["0"] * 2
    assert everywhere(herd, "sudo wg show wg-runcrate peers | wc -l") == ["1"] * 2
    assert herd.ssh("node-0", "squeue -h -t R -o %S") == started


def test_a_running_cluster_grows(herd: Cluster) -> None:
    """From 2 to 4 nodes: all take jobs, by name and hostfile; the old job's start is unchanged (C11, G38)."""
    computer, started = herd.computer, herd.ssh("node-0", "squeue -h -o %S")
    handshake = "sudo wg show wg-runcrate dump | awk '$4 == \"10.77.0.1/32\" { print $1 }'"
    before = herd.ssh("node-1", f"{handshake}; sudo sha256sum /etc/munge/munge.key")
    up(computer, 4)
    grown = as_it_is(computer)
    assert grown.ssh("node-0", "squeue -h -t R -o %S") == started
    assert grown.ssh("node-1", f"{handshake}; sudo sha256sum /etc/munge/munge.key") == before
    assert grown.ssh("node-0", "sinfo -h -N -o '%N %T'").split() == [
        *("node-0", "mixed", "node-1", "mixed", "node-2", "idle", "node-3", "idle"),
    ]
    hostfile = "".join(f"node-{index} slots=8\n" for index in range(4))
    assert {grown.ssh(node.name, "cat /etc/runcrate/hostfile") for node in grown.plan.nodes} == {hostfile}
    assert grown.ssh("node-1", "ssh node-3 hostname; ls /dev/simulated-gpu7") == "node-3\n/dev/simulated-gpu7\n"
    assert "nothing to change" in up(computer, 4)
    told = json.loads(computer.run("events", "herd", "--json").stdout)
    assert [one["data"]["node"] for one in told if one["type"] == "node_joined"] == ["node-2", "node-3"]
    grown.ssh("node-0", "touch /tmp/enough")
    until(lambda: grown.ssh("node-0", "tail -n 2 /tmp/job.out | sort") == "node-0\nnode-1\n", "it ends well", 240)


def test_a_shrink_is_refused(herd: Cluster) -> None:
    """4 nodes to 3: exit 6 with the reason, and nothing happens (C7)."""
    done = herd.computer.run("up", spec(herd.computer, 3), "--yes")
    assert done.returncode == 6
    assert "nodes: 4 is running, 3 is asked: a cluster ends whole" in done.stderr
    assert herd.computer.status("herd")["state"] == "ready"


def test_a_worker_that_stops_is_named_and_comes_back(herd: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check names the node that is off: degraded, exit 4; once it runs again the next check says ready (X5, F20)."""
    computer, provider = herd.computer, LocalProvider()
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(computer.home))
    cluster_id = computer.status("herd")["cluster_id"]
    herd.ssh("node-1", "sudo systemctl poweroff", check=False)
    until(lambda: listed(provider, cluster_id)[1].state is MachineState.STOPPED, "node-1 is off")
    done = computer.run("status", "herd", "--check")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "node-1: its machine" in done.stdout
    request = request_for(load(spec(computer, 4)), cluster_id, time.time() + 300)
    reserve(provider, request, lambda message, node: None)  # somebody starts it again
    until(lambda: "idle" in herd.ssh("node-0", "sinfo -h -n node-1 -o %T", check=False), "node-1 is idle")
    done = computer.run("status", "herd", "--check")
    assert (done.returncode, computer.status("herd")["state"]) == (0, "ready"), done.stdout + done.stderr


def test_a_machine_that_is_gone_is_replaced(herd: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same `up` makes another node-2; the old one's keys are nowhere, its end is in the receipt (X1, X5)."""
    computer = herd.computer
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(computer.home))
    old, provider = keys(as_it_is(computer), "node-2"), LocalProvider()
    lost = listed(provider, computer.status("herd")["cluster_id"])[2]
    asyncio.run(provider.delete(lost, lambda message, node: None))
    up(computer, 4)
    now = as_it_is(computer)
    files = "/etc/ssh/ssh_known_hosts ~root/.ssh/authorized_keys /home/*/.ssh/authorized_keys /etc/wireguard/*.conf"
    for key in old:
        look = f"sudo sh -c 'cat {files}; wg show wg-runcrate peers' | grep -cF {key} || :"
        assert everywhere(now, look) == ["0"] * 4
        assert key not in now.ssh_config.with_name("known_hosts").read_text()
    assert now.ssh("node-0", "ssh node-2 hostname") == "node-2\n"
    assert now.ssh("node-0", "srun -N 4 hostname | sort").split() == [f"node-{index}" for index in range(4)]
    assert now.ssh("node-2", "hostname -I").count("10.77.0.3") == 1
    rows = json.loads(computer.run("receipt", "herd", "--json").stdout)["machines"]
    first, second = [row for row in rows if row["node"] == "node-2" and row["billed_from"]]
    assert (bool(first["gone_at"]), bool(first["proof"]), second["gone_at"]) == (True, True, None)
    assert first["billed_from"] < first["gone_at"] < second["billed_from"]
