"""The offer that a spec would take now."""

from __future__ import annotations

from runcrate_iac.artifacts.store import refuse_unusable
from runcrate_iac.ledger.view import View
from runcrate_iac.machines.growth import added, offer
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.notify import refuse_unsendable


def available(spec: ClusterSpec) -> list[Offer]:
    """What could start now instead, after a failure (C8); none where the provider can't say."""
    try:
        return list(provider_of(spec).offers(spec.machine, spec.nodes))
    except Exception:  # noqa: BLE001 - the failure itself is what has to be told
        return []


def chosen(spec: ClusterSpec) -> Offer:
    """The offer that would be taken.

    Raises :class:`~runcrate_iac.errors.SpecError` where there is none, or its email could not go out.
    """
    refuse_unsendable(spec)
    refuse_unusable(spec)
    return offer(spec, spec.nodes, provider_of(spec))


def more(view: View, spec: ClusterSpec) -> Offer | None:
    """The offer for the workers that this spec adds to a cluster that is up; None where it adds none.

    Raises :class:`~runcrate_iac.errors.SpecError` where there is none.
    """
    refuse_unusable(spec)
    return added(view, spec, provider_of(spec))
