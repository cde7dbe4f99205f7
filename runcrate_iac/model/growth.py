"""What a living cluster may become: it grows by workers of the same kind, and nothing else of it changes (C1)."""

from __future__ import annotations

from datetime import datetime

from runcrate_iac.model.base import Model
from runcrate_iac.model.lifecycle import State
from runcrate_iac.model.money import Money
from runcrate_iac.model.network import Machine
from runcrate_iac.model.spec import ClusterSpec, Software


class Growth(Model):
    """Workers that are being added: they are not part of the cluster until all of them have joined."""

    spec: ClusterSpec
    """The cluster's spec once they are."""
    since: datetime
    deadline: datetime
    """When they must have joined, or all of them are released (C8)."""
    price_per_machine: Money
    """USD per hour of each."""
    machines: tuple[Machine, ...] = ()
    """Those that are up."""
    joining: bool = False
    """The join has begun, so that the old nodes may know of them."""


def refusals(before: ClusterSpec, after: ClusterSpec, state: State) -> list[str]:
    """What can't be changed of a cluster in this state, a line for each field with the reason; empty where all can."""
    told = []

    def refuse(field: str, old: object, new: object, reason: str) -> None:
        told.append(f"{field}: {old} is running, {new} is asked: {reason}")

    if after.nodes < before.nodes:
        reason = "a cluster ends whole, and no node of it ends alone (C7)"
        refuse("nodes", before.nodes, after.nodes, reason)
    if after.nodes > before.nodes and state is not State.READY:
        reason = f"workers are added to a cluster that is ready, and this one is {state}: mend it first"
        refuse("nodes", before.nodes, after.nodes, reason)
    if after.provider != before.provider:
        refuse("provider", before.provider, after.provider, "the machines of a cluster have one source (C1)")
    for field in type(after.machine).model_fields:
        old, new = getattr(before.machine, field), getattr(after.machine, field)
        if old != new:
            refuse(f"machine.{field}", old, new, "all machines of a cluster are equal, those that are added too (C1)")
    if after.software is not before.software is not Software.NONE:
        reason = "what it left on the nodes would stay there beside the new one"
        refuse("software", before.software, after.software, reason)
    return told
