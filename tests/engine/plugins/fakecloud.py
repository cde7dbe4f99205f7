"""A provider whose machines are files in a folder: it costs nothing and keeps its own truth.

Installed for the tests only, as any third party's provider would be. ``FAKECLOUD`` is its folder. What goes wrong with
it is said by the spec's ``faults``. ``FAKECLOUD_PREPARES`` is how many seconds it prepares for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.artifacts import Preload
from runcrate_iac.model.money import Money
from runcrate_iac.model.network import Machine
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MachineSpec

CLOSED_PORT = 9  # nothing answers there: the join of such machines can only miss its deadline


def offer(provider: str, machine: MachineSpec, nodes: int) -> Offer:
    """The offer of a provider of the tests: at 2.50 USD per hour each."""
    price = Money.model_validate({"usd": "2.50"})
    return Offer.of(machine, nodes, provider=provider, location="nowhere", gpus_simulated=True, price_per_machine=price)


class FakeCloud:
    """Machines as files named ``<cluster id>.node-<index>``."""

    name = "fakecloud"
    listing_delay = 0.0

    def __init__(self) -> None:
        """Use the folder that the environment names."""
        self._root = Path(os.environ["FAKECLOUD"])

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """Machines at 2.50 USD per hour, as many as are asked for, up to 8."""
        if nodes > 8:
            return []
        return [offer(self.name, machine, nodes)]

    def prepare(self, machine: MachineSpec, preload: Preload | None, report: Report) -> None:  # noqa: ARG002
        """Take the time."""
        time.sleep(float(os.environ.get("FAKECLOUD_PREPARES", "0")))

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:
        """Make the file."""
        (self._root / f"{request.cluster_id}.node-{index}").touch()
        report("made", f"node-{index}")
        return next(made for made in await self.list(request.cluster_id) if made.index == index)

    async def list(self, cluster_id: str) -> Sequence[Machine]:
        """Every machine that is there."""
        names = sorted(file.name for file in self._root.glob(f"{cluster_id}.node-*"))
        return [
            Machine(index=int(name.rsplit("-", 1)[1]), id=name, host="127.0.0.1", port=CLOSED_PORT + int(name[-1]))
            for name in names
        ]

    async def delete(self, machine: Machine, report: Report) -> None:
        """Delete the file."""
        report("releasing", f"node-{machine.index}")
        (self._root / machine.id).unlink(missing_ok=True)
