"""The end of the cluster that the tests before used."""

from __future__ import annotations

import json

import psutil
import pytest

from tests.hosts.conftest import Cluster, answers

pytestmark = pytest.mark.hosts


def test_up_again_repairs_a_cluster_that_lost_a_machine(cluster: Cluster) -> None:
    """A machine that was powered off is started again by `up`, and the cluster is ready again (C9, F20)."""
    (machine,) = [m for m in psutil.process_iter(["cmdline"]) if is_node(m, "demo-", ".node-1")]
    machine.kill()
    machine.wait(30)
    done = cluster.computer.run("up", cluster.computer.spec(), "--yes", "--json")
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert (status["state"], status["losses"]) == ("ready", 1)
    assert "10.77.0.2" in cluster.computer.run("ssh", "demo", "--", "getent hosts node-1").stdout
    assert (
        json.loads(cluster.computer.run("up", cluster.computer.spec(), "--yes", "--json").stdout)["resources_changed"]
        == 0
    )


def is_node(process: psutil.Process, cluster: str, node: str) -> bool:
    """Whether this process is that machine."""
    words = process.info["cmdline"] or []
    return "qemu" in " ".join(words[:1]) and any(word.startswith(f"guest={cluster}") and node in word for word in words)


def test_down_leaves_no_process_no_file_and_no_port(cluster: Cluster) -> None:
    """After `down` no machine runs, nothing of one is on disk, no port is open, and no key is kept (C7, C22)."""
    ports = [machine["port"] for machine in cluster.computer.status("demo")["machines"]]
    assert all(answers(port) for port in ports)
    done = cluster.computer.run("down", "demo", "--yes")
    assert done.returncode == 0, done.stderr
    assert cluster.computer.leftovers("demo") == []
    assert not any(answers(port) for port in ports)
    assert [path.name for path in cluster.ssh_config.parent.iterdir() if "id_" in path.name] == []


def test_a_second_down_has_nothing_to_do(cluster: Cluster) -> None:
    """`down` again says so and exits 0 (C7)."""
    done = cluster.computer.run("down", "demo", "--yes")
    assert (done.returncode, "nothing to do" in done.stdout) == (0, True)
