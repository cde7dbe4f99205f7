"""A provider that does wrong what a schedule says, around one that does not: to rehearse failure (X8)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.injected import Met, Schedule
from runcrate_iac.machines.provider import Provider, Reservation
from runcrate_iac.model import faults
from runcrate_iac.model.faults import Call, Fault
from runcrate_iac.model.network import Machine, MachineState, node_name
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MachineSpec

POLL = 0.5

T = TypeVar("T")


class ServerError(Exception):
    """The provider answered with an error of its own."""


class RateLimited(Exception):
    """The provider was asked too often."""

    def __init__(self, message: str, retry_after: float) -> None:
        """``retry_after``: seconds after which it may be asked again."""
        super().__init__(message)
        self.retry_after = retry_after


class Faulty:
    """A provider with faults injected: everything else, and every further ability, is that of the inner one."""

    def __init__(
        self, inner: Provider, schedule: Sequence[Fault], memory: Path, now: Callable[[], float] = time.time
    ) -> None:
        """``memory``: the file that keeps what has happened; ``now``: seconds since the epoch."""
        self.name = inner.name
        hidden = [fault.seconds for fault in schedule if isinstance(fault, faults.NotListed)]
        self.listing_delay = max(inner.listing_delay, *hidden, 0.0)
        self._inner, self._now = inner, now
        self._fails = any(isinstance(fault, faults.StatusFailed) for fault in schedule)
        self._schedule = Schedule(schedule, memory)
        for ability in dir(inner):  # isinstance finds an ability here exactly where the inner one has it
            if not ability.startswith("_") and not hasattr(self, ability):
                setattr(self, ability, getattr(inner, ability))

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """The inner provider's offers."""
        return self._inner.offers(machine, nodes)

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:
        """Make the machine, or do what the schedule says instead."""
        self._schedule.begin(request.cluster_id)

        async def make() -> Met:
            if self._fails:
                await self._end_failed(request.cluster_id, index, report)
            self._schedule.order(index)
            return self._meet(await self._inner.create(request, index, report))

        met = await self._call(self._schedule.next(Call.CREATE, index), make, node_name(index))
        for fault in met.faults:
            # The other machine may be met by another process.
            while isinstance(fault, faults.SameAddress) and not self._schedule.machine_of(fault.of):  # noqa: ASYNC110
                await asyncio.sleep(POLL)
        return self._told(met)

    async def list(self, cluster_id: str) -> Sequence[Machine]:
        """What the inner provider lists, as the schedule says to tell it."""
        if not self._schedule.concerns(cluster_id):
            return await self._inner.list(cluster_id)
        found = await self._call(self._schedule.next(Call.LIST), lambda: self._inner.list(cluster_id))
        return [self._told(met) for met in map(self._meet, found) if not self._hidden(met)]

    async def delete(self, machine: Machine, report: Report) -> None:
        """Delete the machine, or do what the schedule says instead."""
        met = self._schedule.known(machine)
        fault = self._schedule.next(Call.DELETE, machine.index) if met else None
        if not isinstance(fault, faults.Lie):
            ours = met.machine if met else machine
            await self._call(fault, lambda: self._end(ours, report), node_name(machine.index))

    async def _call(self, fault: Fault | None, work: Callable[[], Awaitable[T]], node: str | None = None) -> T:
        """The call's work, with this fault."""
        if fault is None:
            return await work()
        done = [await work()] if getattr(fault, "done", False) else []
        match fault:
            case faults.Slow():
                await asyncio.sleep(fault.seconds)
            case faults.Hang():
                await asyncio.Event().wait()
            case faults.Error():
                raise ServerError(f"{faults.phrase(fault.status)} (injected)")
            case faults.Dropped():
                raise ConnectionResetError("the connection was dropped (injected)")
            case faults.RateLimit():
                raise RateLimited(f"{faults.phrase(429)} (injected)", fault.retry_after)
            case faults.RevokedKey():
                raise StepFailed(f"{self.name} refuses our key: {faults.phrase(401)} (injected)", "renew the key", node)
            case faults.Failed():
                raise StepFailed(f"{node}: its machine failed to start (injected)", "choose another offer", node)
        return done[0] if done else await work()

    async def _end(self, machine: Machine, report: Report) -> None:
        await self._inner.delete(machine, report)
        self._schedule.deleted(machine)

    async def _end_failed(self, cluster_id: str, index: int, report: Report) -> None:
        """Remove the machine that is said to have failed, so that it is made anew, as the contract wants it."""
        for met in map(self._meet, await self._inner.list(cluster_id)):
            if met.machine.index == index and self._told(met).state is MachineState.FAILED:
                await self._end(met.machine, report)

    def _meet(self, machine: Machine) -> Met:
        return self._schedule.meet(machine, self._now())

    def _hidden(self, met: Met) -> bool:
        age = self._now() - met.since
        return any(isinstance(fault, faults.NotListed) and age < fault.seconds for fault in met.faults)

    def _told(self, met: Met) -> Machine:
        """The machine as the schedule says to describe it."""
        change: dict[str, Any] = {}
        for fault in met.faults:
            match fault:
                case faults.StatusFailed() if self._now() - met.since >= fault.seconds:
                    change["state"] = MachineState.FAILED
                case faults.WrongAddress():
                    change["host"] = fault.address
                case faults.SameAddress() if other := self._schedule.machine_of(fault.of):
                    change |= {field: getattr(other, field) for field in ("host", "port", "endpoint")}
        return met.machine.model_copy(update=change)
