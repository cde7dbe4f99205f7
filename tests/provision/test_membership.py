"""A machine tells which cluster it is in: in a real shell, its files in a folder of the test."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.model.conditions import Condition
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision import lease, leave
from runcrate_iac.provision.context import Context
from runcrate_iac.provision.facts import Facts
from runcrate_iac.provision.membership import Membership
from runcrate_iac.provision.session import load
from tests.provision.test_leave import Here, network
from tests.provision.test_look import look
from tests.spec.test_preflight import SPEC, machine
from tests.spec.test_preflight import network as simulated


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A machine that has joined the cluster t-1 as node-1."""
    return Here(tmp_path)


def armed(here: Here, settled: int) -> bool:
    """Whether the join of t-1 arms a lease here, which has so many nodes already."""
    nodes = network()
    joining = Membership(cluster_id="t-1", settled=settled)
    spec = ClusterSpec(name="t", nodes=2)
    here.shell(lease.armed(Context(spec, nodes, nodes.nodes[1], nodes, membership=joining), "t-1", time.time() + 60))
    return (here.root / "etc/systemd/system/timers.target.wants/runcrate-leave.timer").is_symlink()


def heard(here: Here) -> Facts:
    """What the preflight hears of it."""
    return look(moved={folder: f"{here.root}{folder}" for folder in ("/var/lib/runcrate/", "/etc/systemd/")})


def test_the_preflight_hears_it_until_the_machine_leaves(here: Here) -> None:
    """The join's own file tells it to any login user, and one that has left is in no cluster any more (C7)."""
    assert not armed(here, settled=2)
    before = heard(here)
    assert armed(here, settled=0)
    here.join()
    told = heard(here)
    assert here.leave("t-1").returncode == 0
    assert [(one.cluster, one.node, one.leased) for one in (before, told)] == [
        ("t-1", "", False),
        ("t-1", "node-1", True),
    ]
    assert heard(here).cluster == ""


def test_no_lease_is_armed_on_a_node_that_changed_its_address(here: Here) -> None:
    """A join that fails for another reason would leave it, and it would end the node and its jobs (C8, X2)."""
    assert not armed(here, settled=2)
    assert not (here.root / "systemctl").exists()


@pytest.mark.parametrize(
    ("settled", "cluster", "leaving"), [(0, "t-1", False), (1, "t-1", False), (2, "t-0", False), (2, "t-1", True)]
)
def test_a_lease_is_armed_on_every_other_new_machine(here: Here, settled: int, cluster: str, leaving: bool) -> None:
    """One of a cluster not joined yet, that is added, that was in an earlier one, or whose leaving broke off (X2)."""
    here.file("/var/lib/runcrate/cluster").write_text(f"{cluster}\n")
    if leaving:
        here.file("/run/runcrate-leaving").touch()
    assert armed(here, settled)
    assert heard(here).cluster == "t-1"
    assert "start runcrate-leave.timer" in (here.root / "systemctl").read_text()


@pytest.mark.parametrize(("staying", "leaves"), [(["node-0", "node-1"], False), (["node-0"], True), ([], True)])
def test_workers_that_are_taken_back_are_no_nodes_of_the_cluster(here: Here, staying: list[str], leaves: bool) -> None:
    """The undoing of a growth leaves a machine alone that says it is one of the nodes that stay (C8)."""
    here.file("/var/lib/runcrate/cluster").write_text("t-1\nnode-1\n")
    here.leaves.chmod(0o755)
    done = subprocess.run(["sh", "-s"], input=here.moved(leave._script("t-1", staying)), text=True, check=False)
    assert done.returncode == (0 if leaves else 1)
    assert heard(here).cluster == ("" if leaves else "t-1")


@pytest.mark.parametrize("head", ["t-1", ""])
def test_the_preflight_tells_what_the_machines_say(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong is told of its node; what an exchange leaves behind is news, where nothing is wrong (C19, C22)."""
    nodes = simulated(2)
    joining = Membership(cluster_id="t-1", settled=2, former={1: "192.0.2.9"})
    compare: Any = load("preflight._compare")
    names = compare.__globals__
    told: list[Condition] = []
    names["_facts"].update({0: machine(0, cluster=head), 1: machine(1)})
    monkeypatch.setitem(names, "found", told.append)
    refused = []
    for node in nodes.nodes:
        try:
            compare(Context(SPEC, nodes, node, nodes, membership=joining))
        except names["CannotJoin"]:
            refused.append(node.name)
    found = [(one.node, one.reason) for one in told]
    assert (refused, found) == (([], [("node-1", "NewMachine")]) if head else (["node-0"], [("node-0", "OtherHead")]))
