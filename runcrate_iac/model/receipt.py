"""The rollback receipt: every machine ever asked for, the proof that it is gone, its seconds and its cost (X1)."""

from __future__ import annotations

from datetime import datetime

from runcrate_iac.model.base import Model
from runcrate_iac.model.money import Money


class MachineReceipt(Model):
    """One machine."""

    node: str
    id: str
    """The provider's id."""
    asked_at: datetime
    billed_from: datetime | None
    """Its own moment: when it became part of the cluster (C11); None where it never did."""
    gone_at: datetime | None
    proof: str
    """How it is known that it is gone; empty where it is not."""
    seconds_alive: float
    cost: Money


class Receipt(Model):
    """What became of every machine of one cluster."""

    cluster: str
    cluster_id: str
    state: str
    machines: tuple[MachineReceipt, ...]
    cost: Money
    """USD for the whole cluster."""
    all_gone: bool
