"""The offer that a spec would take now."""

from __future__ import annotations

from runcrate_iac.errors import SpecError
from runcrate_iac.machines.registry import provider
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.notify import refuse_unsendable


def chosen(spec: ClusterSpec) -> Offer:
    """The first offer.

    Raises :class:`SpecError` where the provider has none, or can never have one.
    """
    refuse_unsendable(spec)
    offers = provider(spec.provider).offers(spec.machine, spec.nodes)
    if not offers:
        shape = f"{spec.nodes} machines with {spec.machine.gpus} {spec.machine.gpu} each"
        raise SpecError(f"{spec.provider} has no offer for {shape} now", "ask for fewer, or try later")
    return offers[0]
