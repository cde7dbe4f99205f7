"""Machines that are part of a cluster already, by their own word: which of them may not be a node of this one (C7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition, Status, not_joined
from runcrate_iac.model.network import NetworkPlan, Node, node_name
from runcrate_iac.provision.facts import Facts
from runcrate_iac.provision.leave import LEAVE


class Membership(Model):
    """The cluster that is joined, as its machines know it."""

    cluster_id: str
    ended: tuple[str, ...] = ()
    """The ids of earlier clusters of its name: a machine that still carries one is free."""
    settled: int = 0
    """How many nodes are part of it since an earlier join, where their machines are the user's own: the first ones."""
    former: dict[int, str] = Field(default_factory=dict)
    """The addresses that were those nodes until now, by the node's index, and are given no more."""


def refusals(plan: NetworkPlan, facts: Mapping[int, Facts], wanted: Membership) -> Iterator[Condition]:
    """The machines that another cluster has, or that are another node of this one than they are given as."""
    for node in plan.nodes:
        told = facts[node.index]
        if told.cluster and told.cluster not in (wanted.cluster_id, *wanted.ended):
            yield _in_another(node, told.cluster)
        elif node.index == 0 and wanted.settled and _is_stranger(told, wanted):
            yield _other_head(node)
        elif told.cluster == wanted.cluster_id and _is_settled(told, wanted) and told.node != node.name:
            yield _other_node(node, told.node)


def exchanged(plan: NetworkPlan, facts: Mapping[int, Facts], wanted: Membership) -> Iterator[Condition]:
    """The news that a worker has another machine, whose predecessor keeps what the cluster gave it; not a fault.

    Only where none is refused: else its predecessor may have to come back.
    """
    for node in plan.nodes:
        told, former = facts[node.index], wanted.former.get(node.index)
        if former and (told.leased or _is_stranger(told, wanted)):
            message = (
                f"{node.machine.host} takes the place of {former}, which stays as it is: once this join is done,"
                f" `sudo {LEAVE}` makes that machine what it was before it joined"
            )
            yield Condition(type="Exchanged", status=Status.TRUE, reason="NewMachine", message=message, node=node.name)


def _is_stranger(told: Facts, wanted: Membership) -> bool:
    """Whether it is no machine of this cluster. One whose word the login user may not read is not judged."""
    return told.cluster != wanted.cluster_id and not (told.joined and not told.cluster)


def _is_settled(told: Facts, wanted: Membership) -> bool:
    """Whether it is a node that joined before, and not one that was to be added and leaves again."""
    return not told.leased and told.node in [node_name(index) for index in range(wanted.settled)]


def _in_another(node: Node, cluster_id: str) -> Condition:
    name = cluster_id.rpartition("-")[0] or cluster_id
    return not_joined(
        node.name,
        "InAnotherCluster",
        f"{node.machine.host} is a node of the cluster {cluster_id:.80}",
        f"use another machine, or end that cluster (`runcrate-iac down {name:.80}` where it was made); "
        f"where it has ended without this machine, run `sudo {LEAVE}` on it",
    )


def _other_head(node: Node) -> Condition:
    return not_joined(
        node.name,
        "OtherHead",
        f"{node.machine.host} is not the machine that is {node.name}, and what the head has on its disk would be lost",
        "give the head's machine as the first of `machines`; where it is gone for good, end the cluster"
        " (`pulumi destroy`) and bring it up again",
    )


def _other_node(node: Node, other: str) -> Condition:
    return not_joined(
        node.name,
        "OtherNode",
        f"{node.machine.host} is {other} of this cluster, and is given as {node.name}",
        "keep the order of `machines`: workers are added at its end",
    )
