"""Machines that the user's own program made, by any Pulumi resource: taken as they are, never started or ended here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from runcrate_iac.errors import Refused
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import View
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.offer import JOIN_SECONDS, SLOW_JOIN_SECONDS, Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import Kind, MachineSpec


class GivenProvider:
    """The machines listed in the program; their own resources create, bill and delete them."""

    name = "given"
    listing_delay = 0.0

    def __init__(self, machines: Sequence[Machine] = ()) -> None:
        """``machines``: how to reach each."""
        self._machines = tuple(machines)

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """One offer, at no price of ours: the machines that are there."""
        simulated = any(given.gpus_simulated for given in self._machines)
        return [as_given(machine, nodes, gpus_simulated=simulated)] if len(self._machines) == nodes else []

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:  # noqa: ARG002
        """Return the machine as given; the join waits for its SSH."""
        return self._machines[index]

    async def list(self, cluster_id: str) -> Sequence[Machine]:  # noqa: ARG002
        """Return none: no machine of theirs is ours to end."""
        return []

    async def delete(self, machine: Machine, report: Report) -> None:
        """Leave it to the resource that made it."""


def refuse_misplaced(name: str, machines: Sequence[Machine], ledger: Ledger) -> None:
    """Raise :class:`Refused` where one of these is a node already: another cluster's, or another one of ``name``.

    Told by the ledger, before anything is done; what it doesn't know, the machine itself tells when it is to join (C7).
    """
    for cluster in ledger.clusters() if machines else ():
        view = None
        with suppress(Refused):  # events of a newer version
            view = ledger.current(cluster)
        if view is None:
            continue
        if cluster == name:
            _refuse_moved(view, machines)
        else:
            _refuse_taken(view, name, machines)


def _refuse_taken(view: View, name: str, machines: Sequence[Machine]) -> None:
    for node in view.all_machines:
        if any(is_one(machine, node) for machine in machines):
            raise Refused(
                f"{node.host}:{node.port} is {node_name(node.index)} of {view.name}, which is {view.state}",
                f"give {name} another machine, or end that cluster first: runcrate-iac down {view.name}",
            )


def _refuse_moved(view: View, machines: Sequence[Machine]) -> None:
    nodes = [node for node in view.machines if node.id in view.joined]
    moved = [
        f"{node.host}:{node.port} is {node_name(node.index)}, and would be {node_name(machine.index)}"
        for node in nodes
        for machine in machines
        if machine.index != node.index and is_one(machine, node)
    ]
    if moved:
        raise Refused(
            f"{view.name}: the machines that are up have another order:\n  " + "\n  ".join(moved),
            "keep their order: workers are added at the end of `machines`, and another machine takes the place of its"
            " predecessor",
        )


def is_one(machine: Machine, other: Machine) -> bool:
    """Whether both are one machine: they have one address, which another machine may have by now with its own key."""
    keys = [(one.host_key or "").split()[:2] for one in (machine, other)]
    differ = keys[0] != keys[1] and keys[0][:1] == keys[1][:1]
    return (machine.host, machine.port) == (other.host, other.port) and not differ


def as_given(machine: MachineSpec, nodes: int, *, gpus_simulated: bool = False) -> Offer:
    """The offer of so many machines of the user's own: no price of ours, and servers have longer to join."""
    return Offer.of(
        machine,
        nodes,
        provider=GivenProvider.name,
        location="as given",
        gpus_simulated=gpus_simulated,
        join_seconds=SLOW_JOIN_SECONDS if machine.kind is Kind.BARE_METAL else JOIN_SECONDS,
    )
