"""A provider whose machines are files in a folder: it costs nothing, keeps its own truth, and fails when told.

Installed for the tests only, as any third party's provider would be. ``FAKECLOUD`` is its folder;
the file ``fault`` in it says what goes wrong.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.money import Money
from runcrate_iac.model.network import Machine
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MachineSpec

CLOSED_PORT = 9  # nothing answers there: the join of such machines can only miss its deadline


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
        price = Money.model_validate({"usd": "2.50"})
        offer = Offer(
            provider=self.name,
            location="nowhere",
            network="ethernet",
            kind=machine.kind,
            gpu=machine.gpu,
            gpus_per_machine=machine.gpus,
            gpus_simulated=True,
            machines=nodes,
            price_per_machine=price,
        )
        return [offer]

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:
        """Make the file; ``fault`` may hold ``fail node-1`` or ``hang``."""
        fault = self._fault()
        (self._root / f"{request.cluster_id}.node-{index}").touch()
        report("made", f"node-{index}")
        if fault == f"fail node-{index}":
            raise StepFailed(f"node-{index}: the machine did not start", "choose another offer", f"node-{index}")
        if fault == "hang":
            await asyncio.Event().wait()
        return next(made for made in await self.list(request.cluster_id) if made.index == index)

    async def list(self, cluster_id: str) -> Sequence[Machine]:
        """Every machine that is there."""
        names = sorted(file.name for file in self._root.glob(f"{cluster_id}.node-*"))
        return [
            Machine(index=int(name.rsplit("-", 1)[1]), id=name, host="127.0.0.1", port=CLOSED_PORT + int(name[-1]))
            for name in names
        ]

    async def delete(self, machine: Machine, report: Report) -> None:
        """Delete the file, unless ``fault`` is ``keep``."""
        report("releasing", f"node-{machine.index}")
        if self._fault() != "keep":
            (self._root / machine.id).unlink(missing_ok=True)

    def _fault(self) -> str:
        file = self._root / "fault"
        return file.read_text().strip() if file.exists() else ""
