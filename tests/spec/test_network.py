"""The private network's plan is a pure function of the machines."""

from __future__ import annotations

import pytest

from runcrate_iac.model.network import Machine, plan


def machines(count: int) -> list[Machine]:
    """So many machines with addresses of their own."""
    return [
        Machine(index=i, id=f"m{i}", host="127.0.0.1", port=2200 + i, endpoint=f"192.0.2.{i}") for i in range(count)
    ]


def test_nodes_are_named_and_addressed_by_their_number() -> None:
    """Node i is node-i at 10.77.0.(i+1), and node 0 is the head (C2, C15)."""
    found = plan(machines(64))
    assert [(n.name, n.address) for n in found.nodes] == [(f"node-{i}", f"10.77.0.{i + 1}") for i in range(64)]
    assert found.head.name == "node-0"


def test_the_order_of_the_machines_does_not_matter() -> None:
    """The plan is the same for the same machines in any order (C2)."""
    assert plan(machines(5)) == plan(machines(5)[::-1])


def test_two_machines_with_one_address_are_refused() -> None:
    """Two nodes at the same address are refused, naming both (C8)."""
    first, second = machines(2)
    with pytest.raises(ValueError, match="node-0 and node-1"):
        plan([first, second.model_copy(update={"port": first.port})])


def test_a_missing_machine_is_refused() -> None:
    """A gap in the numbers is refused: a cluster is whole (C8)."""
    first, _, third = machines(3)
    with pytest.raises(ValueError, match="numbered"):
        plan([first, third])
