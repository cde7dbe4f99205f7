"""`up` on real virtual machines: whole, once, and refused where it must be."""

from __future__ import annotations

import json
import re

import pytest

from tests.hosts.conftest import Cluster

pytestmark = pytest.mark.hosts


def test_it_shows_the_price_before_it_reserves(cluster: Cluster) -> None:
    """The price per hour stands before the first news of a machine (X7)."""
    assert cluster.said.index("per hour") < cluster.said.index("machines: reserving")


def test_it_says_that_the_gpus_are_simulated(cluster: Cluster) -> None:
    """Simulated GPUs are said to be simulated (X9)."""
    assert "8 H100 (simulated)" in cluster.said


def test_it_is_ready_after_the_check(cluster: Cluster) -> None:
    """The cluster is ready, with a common moment, and every condition holds (C5, C6)."""
    status = cluster.computer.status("demo")
    assert status["state"] == "ready"
    assert status["joined_at"] > status["reserved_at"]
    assert {condition["status"] for condition in status["conditions"]} == {"true"}


def test_a_second_up_changes_nothing_and_says_so(cluster: Cluster) -> None:
    """The same `up` again changes no resource (C4)."""
    done = cluster.computer.run("up", cluster.computer.spec(), "--yes", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["resources_changed"] == 0
    assert "nothing to change" in cluster.computer.run("up", cluster.computer.spec(), "--yes").stdout


@pytest.mark.parametrize(("field", "value"), [("machine", {"gpu": "A100", "gpus": 8}), ("machine", {"gpus": 4})])
def test_another_spec_under_the_same_name_is_refused(cluster: Cluster, field: str, value: object) -> None:
    """Another shape of machines is refused with what would change, and the cluster stays (C1, C7)."""
    done = cluster.computer.run("up", cluster.computer.spec(**{field: value}), "--yes")
    assert done.returncode == 6
    assert re.search(rf"{field}\S*: \S+ is running, \S+ is asked", done.stderr)
    assert cluster.computer.status("demo")["state"] == "ready"


@pytest.mark.parametrize(("machine", "field"), [({"memory": "4TiB"}, "memory"), ({"disk": "900TiB"}, "disk")])
def test_more_than_the_computer_has_is_refused(cluster: Cluster, machine: dict[str, str], field: str) -> None:
    """Too little memory or disk is told before anything starts, with what is asked and what there is (X9)."""
    done = cluster.computer.run("up", cluster.computer.spec(name="huge", machine=machine), "--yes")
    assert done.returncode == 2
    assert f"machine.{field}" in done.stderr
    assert cluster.computer.leftovers("huge") == []


def test_check_looks_at_every_node_again(cluster: Cluster) -> None:
    """`check` runs the acceptance suite and finds everything well, /shared too; so does `status --check` (X3)."""
    done = cluster.computer.run("check", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "/shared" in done.stdout
    assert "✗" not in done.stdout
    done = cluster.computer.run("status", "demo", "--check", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "ready"


def test_ssh_runs_a_command_and_passes_its_exit_code(cluster: Cluster) -> None:
    """`ssh NAME NODE -- command` runs there, with its output and its exit code (C2, C23)."""
    computer = cluster.computer
    assert computer.run("ssh", "demo", "1", "--", "hostname").stdout.strip() == "node-1"
    assert computer.run("ssh", "demo", "--", "exit 7").returncode == 7
    document = json.loads(computer.run("ssh", "demo", "node-0", "--json", "--", "hostname; exit 3").stdout)
    assert document == {"exit_code": 3, "stdout": "node-0\n", "stderr": ""}


def test_events_tell_the_whole_way(cluster: Cluster) -> None:
    """The ledger has the reservation first, then the common moment, then the check (C4, C5, X6)."""
    kinds = [entry["type"] for entry in json.loads(cluster.computer.run("events", "demo", "--json").stdout)]
    assert kinds[0] == "reserved"
    assert kinds.index("machines_asked") < kinds.index("machines_up") < kinds.index("joined") < kinds.index("checked")
