"""Machines that are part of a cluster already, by their own word: which of them may not be a node of this one (C7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition, not_joined
from runcrate_iac.model.network import NetworkPlan, Node
from runcrate_iac.provision.facts import Facts
from runcrate_iac.provision.leave import LEAVE


class Membership(Model):
    """The cluster that is joined, as its machines know it."""

    cluster_id: str
    ended: tuple[str, ...] = ()
    """The ids of earlier clusters of its name: a machine that still carries one is free."""
    settled: int = 0
    """How many nodes are part of it since an earlier join, where their machines are the user's own: the first ones."""


def refusals(plan: NetworkPlan, facts: Mapping[int, Facts], wanted: Membership) -> Iterator[Condition]:
    """The machines that another cluster has."""
    for node in plan.nodes:
        if (theirs := facts[node.index].cluster) and theirs not in (wanted.cluster_id, *wanted.ended):
            yield _in_another(node, theirs)


def _in_another(node: Node, cluster_id: str) -> Condition:
    name = cluster_id.rpartition("-")[0] or cluster_id
    return not_joined(
        node.name,
        "InAnotherCluster",
        f"{node.machine.host} is a node of the cluster {cluster_id:.80}",
        f"use another machine, or end that cluster (`runcrate-iac down {name:.80}` where it was made); "
        f"where it has ended without this machine, run `sudo {LEAVE}` on it",
    )
