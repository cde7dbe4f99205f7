"""The end of the cluster that the tests before used."""

from __future__ import annotations

import pytest

from tests.hosts.conftest import Cluster, answers

pytestmark = pytest.mark.hosts


def test_down_leaves_no_process_no_file_and_no_port(cluster: Cluster) -> None:
    """After `down` no machine runs, nothing of one is on disk, no port is open, and no key is kept (C7, C22)."""
    ports = [node.machine.port for node in cluster.plan.nodes]
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
