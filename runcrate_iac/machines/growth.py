"""Workers for a cluster that is up: all that are asked for come up and join, or all of them are released (C8, C11)."""

from __future__ import annotations

from datetime import datetime, timedelta

from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines import gone
from runcrate_iac.machines.given import GivenProvider, as_given
from runcrate_iac.machines.provider import Provider
from runcrate_iac.model.network import node_name
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MOST_NODES, ClusterSpec


def offer(spec: ClusterSpec, nodes: int, provider: Provider) -> Offer:
    """The provider's first offer for so many machines of this shape.

    Raises :class:`SpecError` where it has none now, or can never have one.
    """
    offers = provider.offers(spec.machine, nodes)
    if not offers:
        shape = f"{nodes} machines with {spec.machine.gpus} {spec.machine.gpu} each"
        raise SpecError(f"{provider.name} has no offer for {shape} now", "ask for fewer, or try later")
    return offers[0]


def added(view: View, spec: ClusterSpec, provider: Provider) -> Offer | None:
    """The offer for the workers that this spec adds to the cluster; None where it adds none.

    Raises as :func:`offer` does.
    """
    count = spec.nodes - view.spec.nodes
    if count <= 0:
        return None
    return as_given(spec.machine, count) if provider.name == GivenProvider.name else offer(spec, count, provider)


def begin(view: View, spec: ClusterSpec, provider: Provider, ledger: Ledger) -> View:
    """Put the intent into the ledger, before the provider is asked for a machine."""
    chosen = added(view, spec, provider)
    if chosen is None:
        return view
    seconds = spec.join_timeout or chosen.join_seconds
    facts = {
        "spec": spec.model_dump(mode="json"),
        "deadline": (ledger.now() + timedelta(seconds=seconds)).isoformat(),
        "price_per_machine": str(chosen.price_per_machine.usd),
    }
    ledger.note(view.name, view.cluster_id, Note.GROWTH_STARTED, **facts)
    return ledger.latest(view.name) or view


def abandoned(view: View, spec: ClusterSpec, now: datetime) -> str:
    """Why workers that a killed command was adding can't be taken up by this spec; empty where they can, or none is."""
    if view.growth is None:
        return ""
    if spec.nodes == view.spec.nodes:
        return "the workers are declared no more"
    return "the workers have not joined in time, and what added them was ended" if now > view.growth.deadline else ""


async def undo(view: View, provider: Provider, ledger: Ledger, report: Report, *, reason: str) -> View:
    """Release the machines that were being added, and them only, until the provider lists none of them (X1).

    Raises :class:`~runcrate_iac.errors.Leftover` where that can't be proved in time; it can be called again.
    """
    await gone.end(view, provider, ledger, report, nodes=range(view.spec.nodes, MOST_NODES))
    ledger.note(view.name, view.cluster_id, Note.GROWTH_UNDONE, reason=reason)
    after = ledger.latest(view.name) or view
    report(told(after), None)
    return after


def told(after: View) -> str:
    """What the undoing of a growth came to, in a sentence."""
    mine = {key for key, node in after.made.items() if int(node.removeprefix("node-")) >= after.spec.nodes}
    stay = f"{node_name(0)} to {node_name(after.spec.nodes - 1)} stay as they are"
    if after.spec.provider == GivenProvider.name:
        return f"the machines that were to be added stay with the program that made them; {stay}"
    released = sum(key in after.gone for key in mine)
    return f"released {released} of {len(mine)} machines that were to be added, nothing is billed of them; {stay}"
