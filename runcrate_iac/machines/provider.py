"""The contract of a provider. Abilities that not all have are protocols of their own, asked for with isinstance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

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
    authorized_keys: tuple[str, ...]
    """OpenSSH public keys that may log in: the cluster's own, then the user's."""
    identity_file: Path
    """The private key on this computer that goes with the first of ``authorized_keys``."""
    deadline: float
    """Seconds since the epoch by which the whole cluster must have joined."""


class Provider(Protocol):
    """Machines from one source."""

    name: str

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """The offers that can start now; empty where there is none.

        Raises :class:`~runcrate_iac.errors.SpecError` where this provider can never give such machines,
        naming the field, what is asked and what there is. Nothing is created.
        """
        ...

    def reserve(self, request: Reservation, report: Report) -> Sequence[Machine]:
        """Create every machine at once and return when SSH answers on all of them.

        Repeatable: machines that carry the mark already are adopted, not made twice. Raises
        :class:`~runcrate_iac.errors.StepFailed` that names the machine, the fact and the remedy as soon
        as one machine cannot come up; what was made stays for :meth:`release`.
        """
        ...

    def list(self, cluster_id: str) -> Sequence[Machine]:
        """Every machine that carries the mark now, running or not: the provider's own truth."""
        ...

    def release(self, cluster_id: str, report: Report) -> None:
        """Release every machine that carries the mark. Repeatable; one that is gone already is no error."""
        ...


@runtime_checkable
class HasPreparation(Protocol):
    """A provider that has something to build or fetch once before machines can start."""

    def prepare(self, machine: MachineSpec, report: Report) -> None:
        """Make or find what machines of this shape start from; nothing is reserved."""
        ...
