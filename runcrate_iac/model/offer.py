"""Machines that can start now, and what the whole cluster costs per hour (C3)."""

from __future__ import annotations

from runcrate_iac.model.base import Model
from runcrate_iac.model.money import FREE, Money
from runcrate_iac.model.spec import Kind, MachineSpec

JOIN_SECONDS = 25 * 60
"""Seconds from the reservation within which machines join, where their type isn't known to boot slowly (C8)."""
SLOW_JOIN_SECONDS = 45 * 60
"""The same for servers, whose firmware alone may take a quarter of an hour."""


class Offer(Model):
    """One choice: so many equal machines at one place, priced by the machine and never by the GPU."""

    provider: str
    location: str
    network: str
    """How the machines are joined: ``ethernet``, ``infiniband`` …"""
    kind: Kind
    gpu: str
    gpus_per_machine: int
    gpus_simulated: bool
    machines: int
    join_seconds: int = JOIN_SECONDS
    """Seconds from the reservation within which such machines join; more for types known to boot slowly (C8)."""
    price_per_machine: Money
    """USD per hour of one machine."""

    @classmethod
    def of(
        cls,
        machine: MachineSpec,
        nodes: int,
        *,
        provider: str,
        location: str,
        gpus_simulated: bool,
        price_per_machine: Money = FREE,
        join_seconds: int = JOIN_SECONDS,
    ) -> Offer:
        """The offer of ``nodes`` machines of exactly this shape, joined by Ethernet."""
        return cls(
            provider=provider,
            location=location,
            network="ethernet",
            kind=machine.kind,
            gpu=machine.gpu,
            gpus_per_machine=machine.gpus,
            gpus_simulated=gpus_simulated,
            machines=nodes,
            join_seconds=join_seconds,
            price_per_machine=price_per_machine,
        )

    @property
    def price(self) -> Money:
        """USD per hour of the whole cluster: machine price times machines (C3)."""
        return self.price_per_machine.times(self.machines)
