"""Which clocks are wrong, and by how much: pure arithmetic on what nodes told (F6)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median

from runcrate_iac.model.conditions import Condition, not_joined
from runcrate_iac.model.network import Node
from runcrate_iac.provision.facts import Facts

TOLERANCE = 30.0
"""Seconds that a node's clock may be away from the cluster's."""
_MAJORITY = 3
"""Nodes from which on the others can outvote the head."""


def reference(facts: Mapping[int, Facts], trusted: Collection[int]) -> float:
    """The offset (seconds, to this computer) that all nodes should have, by those that are ``trusted``.

    Time services that have a source are right; without any, the head is, unless the others agree that it isn't.
    """
    facts = {index: facts[index] for index in sorted(trusted)}
    synchronised = [one.offset for one in facts.values() if one.synchronised]
    if synchronised:
        return median(synchronised)
    middle = median(one.offset for one in facts.values())
    head = facts[min(facts)].offset
    return middle if len(facts) >= _MAJORITY and abs(head - middle) > TOLERANCE else head


def corrections(facts: Mapping[int, Facts], trusted: Collection[int]) -> dict[int, float]:
    """Per node whose clock is wrong, the seconds to add to it; ``trusted`` nodes, by index, say what is right."""
    right = reference(facts, trusted)
    return {index: right - one.offset for index, one in facts.items() if abs(one.offset - right) > TOLERANCE}


def disagreement(node: Node, away: float) -> list[Condition]:
    """The fault of a node whose clock is still so many seconds away from the head's: two time services fight."""
    if abs(away) <= TOLERANCE:
        return []
    fact = f"its clock is {away:+.0f} s from the head's, although the join corrected it"
    remedy = "its time service has another source than the head's: give all machines the same"
    return [not_joined(node.name, "ClockDisagrees", fact, remedy)]
