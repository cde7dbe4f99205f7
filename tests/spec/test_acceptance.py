"""The acceptance suite's findings and its table: pure (X3)."""

from __future__ import annotations

from runcrate_iac.model.acceptance import table
from runcrate_iac.model.conditions import Condition, Status, broken
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.model.spec import Software
from runcrate_iac.provision import reach
from runcrate_iac.provision.checks import verdicts

HOSTFILE = ("/shared/hostfile", ["node-0 slots=8", "node-1 slots=8"])


def network(count: int = 3) -> NetworkPlan:
    """So many machines."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}") for i in range(count)])


def without(whole: NetworkPlan, index: int) -> NetworkPlan:
    """The plan with those nodes that can be looked at: all but one."""
    return whole.model_copy(update={"nodes": tuple(node for node in whole.nodes if node.index != index)})


def condition(kind: str, node: str | None, *, good: bool = True, measured: str = "") -> Condition:
    """A finding."""
    status = Status.TRUE if good else Status.FALSE
    return Condition(type=kind, status=status, reason="Test", measured=measured, node=node)


def test_the_table_has_a_row_per_node_and_a_column_per_property() -> None:
    """What is well, what is wrong and what wasn't looked at are told apart, with the figures (X3, F22)."""
    found = [
        condition("ReachesAll", "node-0", measured="1 of 1"),
        condition("GpusPresent", "node-0", good=False, measured="7"),
        condition("SharedMounted", "node-0"),
        condition("SharedWorks", "node-0", good=False),
        condition("SlurmIdle", "node-0"),
        condition("Checked", "node-1", good=False),
        condition("MpiRuns", None),
    ]
    columns, rows = table(["node-0", "node-1"], Software.SLURM, found, shared=True)
    first, second = (dict(zip(columns, row, strict=True)) for row in rows)
    assert columns[0] == "node"
    assert (first["login"], first["reaches"], first["GPUs"], first["/shared"]) == ("✓", "✓ 1 of 1", "✗ 7", "✗")
    assert (first["slurm"], first["clock"]) == ("✓", "-")
    assert (second["login"], second["GPUs"], second["slurm"]) == ("✗", "-", "-")


def test_the_table_has_no_column_for_what_the_cluster_has_not() -> None:
    """Without a shared folder and without software there is no column for them (C21)."""
    columns, _ = table(["node-0"], Software.NONE, [], shared=False)
    assert not {"/shared", "none"} & set(columns)


def test_what_is_well_is_told_with_its_figure() -> None:
    """A node that reaches all says so, with the packet size and its clock's offset to the head's (X3)."""
    whole = network(2)
    probe = reach.parse(["time 1", "mtu 1420", "self 10.77.0.2", "full node-0", "ssh root"])
    found = reach.network(whole, whole.nodes[1], {1: probe}, {0: 3.0, 1: 5.5})
    assert broken(found) == []
    assert {one.type: one.measured for one in found} == {
        "ReachesAll": "1 of 1",
        "LargePacketsPass": "1420 bytes",
        "ClockAgrees": "+2.5 s",
    }


def test_what_is_wrong_is_told_in_the_property_that_it_is_about() -> None:
    """A wrong clock and lost packets are faults of the clock and the packets, and the rest is well (F6, F26)."""
    whole = network(2)
    probe = reach.parse(["time 1", "mtu 1420", "self 10.77.0.2", "fits node-0 84", "ssh root"])
    found = reach.network(whole, whole.nodes[1], {1: probe}, {0: 0.0, 1: 600.0})
    assert {one.type: one.measured for one in broken(found)} == {
        "LargePacketsPass": "84 bytes",
        "ClockAgrees": "+600.0 s",
    }


def test_a_dead_node_is_no_fault_of_the_others() -> None:
    """The nodes that can be looked at are judged by what they have of one another (X3)."""
    whole = network(3)
    present = without(whole, 1)
    assert reach.following(present, whole.nodes[0]) == whole.nodes[2]
    probe = reach.parse(["time 1", "mtu 1420", "self 10.77.0.1", "full node-2", "ssh root"])
    assert broken(reach.network(present, whole.nodes[0], {0: probe}, {0: 0.0, 2: 0.0})) == []
    lines = [*(f"name {node.name} {node.address}" for node in whole.nodes), "gpus 8", "shared 1777"]
    lines += [f"{word} {line}" for word in ("hostfile", "back") for line in HOSTFILE[1]]
    lines += ["read node-0", "read node-2"]
    assert broken(verdicts(whole, whole.nodes[0], 8, HOSTFILE, lines, present=present, shared=True)) == []


def test_a_hostname_that_something_changed_is_told() -> None:
    """A node whose hostname a DHCP hook has set is no node of that name any more, however names resolve (C2, X3)."""
    whole = network(2)
    lines = [*(f"name {node.name} {node.address}" for node in whole.nodes), "gpus 8"]
    lines += [f"hostfile {line}" for line in HOSTFILE[1]]
    for name, reasons in (("node-1", []), ("vm-7.example.internal", ["NamesResolve"])):
        said = [*lines, f"hostname {name}"]
        found = broken(verdicts(whole, whole.nodes[1], 8, HOSTFILE, said, present=whole, shared=False))
        assert [fault.type for fault in found] == reasons
    assert found[0].message == "the hostname is vm-7.example.internal instead of node-1 on node-1"
    assert "DHCP" in found[0].remedy


def test_without_the_head_there_is_no_shared_folder() -> None:
    """With the head gone, /shared is the one thing that is wrong on a worker, and the head is named (F19)."""
    whole = network(3)
    lines = [*(f"name {node.name} {node.address}" for node in whole.nodes), "gpus 8"]
    present = without(whole, 0)
    (fault,) = broken(verdicts(whole, whole.nodes[1], 8, HOSTFILE, lines, present=present, shared=True))
    assert (fault.type, fault.reason) == ("SharedMounted", "HeadMissing")
    assert "node-0" in fault.remedy


def test_the_hostfile_is_tried_by_a_login_to_the_next_node() -> None:
    """The hostfile is wrong where the next node of it can't be logged in to, or reads another one there (X3)."""
    whole = network(2)
    lines = [*(f"name {node.name} {node.address}" for node in whole.nodes), "gpus 8"]
    lines += [f"hostfile {line}" for line in HOSTFILE[1]]
    for answer, said in (
        ("unreturned Permission denied (publickey).", "no login to node-1 of the hostfile (Permission denied"),
        ("back node-7 slots=8", "node-1 reads another /shared/hostfile"),
    ):
        (fault,) = broken(verdicts(whole, whole.head, 8, HOSTFILE, [*lines, answer], present=whole, shared=False))
        assert fault.type == "HostfileRight"
        assert said in fault.message
