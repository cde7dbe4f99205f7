"""A provider in memory that keeps its own truth: what was made, when it went, and what it lists meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, MachineState, node_name
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MachineSpec
from tests.clock import Clock
from tests.engine.plugins.fakecloud import offer


@dataclass
class Made:
    """One machine, in seconds of the clock."""

    id: str
    cluster_id: str
    index: int
    at: float
    gone_at: float | None = None
    stopped: bool = False


Truth = list[Made]


class Cloud:
    """Machines that boot for some seconds, are listed some seconds late, and go on being listed some seconds."""

    name = "cloud"

    def __init__(
        self,
        clock: Clock,
        boot: float = 10.0,
        listing_delay: float = 0.0,
        lingers: float = 0.0,
        *,
        named: bool = False,
    ) -> None:
        """``lingers``: how long a deleted machine is listed still. ``named``: a machine has its mark as its id."""
        self._clock, self._boot, self.listing_delay, self._lingers = clock, boot, listing_delay, lingers
        self._named = named
        self.made: Truth = []
        """Every machine that ever was."""

    @property
    def alive(self) -> Truth:
        """The truth: what exists, and is billed, now."""
        return [made for made in self.made if made.gone_at is None]

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """Machines at 2.50 USD per hour, as many as are asked for."""
        return [offer(self.name, machine, nodes)]

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:
        """Take up what carries the mark, as far as it is listed, or has its name; else make a machine."""
        known = self.alive if self._named else [made for made in self._listed(request.cluster_id) if not made.gone_at]
        mine = [made for made in known if (made.cluster_id, made.index) == (request.cluster_id, index)]
        if not mine:
            report("ordered", node_name(index))
            made_id = f"{request.cluster_id}.{index}" if self._named else f"vm-{len(self.made)}"
            mine = [Made(made_id, request.cluster_id, index, self._clock.time())]
            self.made += mine
        mine[0].stopped = False
        return self._told(mine[0])

    async def list(self, cluster_id: str) -> Sequence[Machine]:
        """What is listed now."""
        return [self._told(made) for made in self._listed(cluster_id)]

    async def delete(self, machine: Machine, report: Report) -> None:
        """End it at once; the list tells it later."""
        for made in self.alive:
            if made.id == machine.id:
                report("deleted", node_name(made.index))
                made.gone_at = self._clock.time()

    def _listed(self, cluster_id: str) -> Truth:
        now = self._clock.time()
        return [
            made
            for made in self.made
            if made.cluster_id == cluster_id
            and now >= made.at + self.listing_delay
            and (made.gone_at is None or now < made.gone_at + self._lingers)
            and not (self._named and made.gone_at is not None and any(m.id == made.id for m in self.alive))
        ]

    def _told(self, made: Made) -> Machine:
        running = self._clock.time() >= made.at + self._boot
        state = MachineState.RUNNING if running else MachineState.BOOTING
        state = MachineState.STOPPED if made.stopped else state
        return Machine(index=made.index, id=made.id, host=f"198.51.100.{self.made.index(made)}", state=state)
