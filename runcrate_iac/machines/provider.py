"""The contract of a provider. Abilities that not all have are protocols of their own, asked for with isinstance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from runcrate_iac.model.artifacts import Preload
from runcrate_iac.model.base import Model
from runcrate_iac.model.network import Machine
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MachineSpec


class Reservation(Model):
    """All machines of one cluster, asked for at once (C4)."""

    cluster_id: str
    """The mark that every machine carries; a lost answer is found again by it."""
    nodes: int
    machine: MachineSpec
    preload: Preload | None = None
    """What the nodes will be brought, which the machines may have from the start."""
    authorized_keys: tuple[str, ...]
    """OpenSSH public keys that may log in: the cluster's own, then the user's."""
    identity_file: Path
    """The private key on this computer that goes with the first of ``authorized_keys``."""
    deadline: float
    """Seconds since the epoch by which the whole cluster must have joined."""


class Provider(Protocol):
    """Machines from one source, one at a time and by their mark; :mod:`.fleet` makes them all or none.

    What its methods raise other than :class:`~runcrate_iac.errors.StepFailed` (a lost answer, a server's error, a rate
    limit) says nothing about the machine: it is looked for by its mark, and asked for again. An error with an attribute
    ``retry_after`` (seconds) is asked again no sooner.
    """

    name: str
    listing_delay: float
    """Seconds after an order within which :meth:`list` may not know a machine yet; 0 where it always does."""

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """The offers that can start now; empty where there is none.

        Raises :class:`~runcrate_iac.errors.SpecError` where this provider can never give such machines,
        naming the field, what is asked and what there is. Nothing is created.
        """
        ...

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:
        """Make the machine of node ``index``, marked with the cluster's id and its number.

        Returns what is known of it once the order is taken, or later. One that carries the mark already is taken
        up: as it is where it runs, started where it was stopped, made anew where it failed. Raises
        :class:`~runcrate_iac.errors.StepFailed` that names the node, the fact and the remedy where this machine
        can't come up: that ends the whole attempt. When it is cancelled it goes on with nothing.
        """
        ...

    async def list(self, cluster_id: str) -> Sequence[Machine]:
        """Every machine that carries the mark now, running or not: the provider's own truth."""
        ...

    async def delete(self, machine: Machine, report: Report) -> None:
        """Release one machine, without starting it; one that is gone already is no error."""
        ...


@runtime_checkable
class HasPreparation(Protocol):
    """A provider that has something to build or fetch once before machines can start."""

    def prepare(self, machine: MachineSpec, preload: Preload | None, report: Report) -> None:
        """Make or find what machines of this shape start from, with or without ``preload``; nothing is reserved.

        Called outside of event loops.
        """
        ...


@runtime_checkable
class HasMarks(Protocol):
    """A provider that can say which clusters its machines belong to, so that forgotten ones are found."""

    async def marks(self) -> Sequence[str]:
        """The id of every cluster that some machine of this user carries now."""
        ...
