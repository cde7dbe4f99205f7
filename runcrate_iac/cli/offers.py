"""The offer that a spec would take now."""

from __future__ import annotations

from runcrate_iac.machines.registry import provider_of
from runcrate_iac.machines.step import offer
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.notify import refuse_unsendable


def chosen(spec: ClusterSpec) -> Offer:
    """The offer that would be taken.

    Raises :class:`~runcrate_iac.errors.SpecError` where there is none, or its email could not go out.
    """
    refuse_unsendable(spec)
    return offer(spec, provider_of(spec))
