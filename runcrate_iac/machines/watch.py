"""Questions to a provider, each with a limit, and what its answers mean: which machines do not run any more."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TypeVar

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.provider import Provider
from runcrate_iac.model.network import Machine, MachineState, node_name
from runcrate_iac.model.progress import Report

CALL_SECONDS = 30.0
"""How long one question to the provider may take before it is asked again."""
DEAD = frozenset({MachineState.FAILED, MachineState.STOPPED, MachineState.GONE})

T = TypeVar("T")


async def within(call: Awaitable[T]) -> T:
    """The provider's answer, if it comes within :data:`CALL_SECONDS`; raises :class:`TimeoutError` otherwise."""
    async with asyncio.timeout(CALL_SECONDS):
        return await call


class Watch:
    """Looks after the machines of a cluster: what the provider says of them now."""

    def __init__(
        self, cluster_id: str, provider: Provider, machines: Sequence[Machine] = (), hidden: float = 0.0
    ) -> None:
        """``machines``: those that are known already; for ``hidden`` seconds they may not be listed yet."""
        self._cluster_id, self._provider, self._hidden = cluster_id, provider, hidden
        self.machines = {machine.id: machine for machine in machines}
        self._seen: dict[str, float] = {}
        self._not_before = -math.inf
        self._doubles: list[Machine] = []

    def add(self, machine: Machine) -> None:
        """Look after this one too."""
        self.machines[machine.id] = machine
        self._seen[machine.id] = asyncio.get_running_loop().time()

    async def look(self) -> list[StepFailed]:
        """Why machines are dead; no answer says nothing, nor does one that is too young to be listed."""
        with suppress(Exception):  # the next look will tell
            return await self.ask()
        return []

    async def ask(self) -> list[StepFailed]:
        """As :meth:`look`; raises what the provider has against it."""
        now, self._doubles = asyncio.get_running_loop().time(), []
        if now < self._not_before:
            return []
        try:
            found = {machine.id: machine for machine in await within(self._provider.list(self._cluster_id))}
        except Exception as error:
            self._not_before = now + retry_after(error)
            raise
        self._doubles = [machine for key, machine in found.items() if key not in self.machines]
        for key, machine in self.machines.items():
            seen = self._seen.setdefault(key, now - self._provider.listing_delay + self._hidden)
            if key in found:
                self._seen[key] = now
                self.machines[key] = found[key]
            elif now - seen >= self._provider.listing_delay:
                self.machines[key] = machine.model_copy(update={"state": MachineState.GONE})
        return [_dead(machine, self._provider.name) for machine in self.machines.values() if machine.state in DEAD]

    async def release_doubles(self, report: Report) -> None:
        """Ask once for the end of machines that the last look saw with the mark and that are none of ours (F12)."""
        with suppress(Exception):  # it is tried again, and the end of the cluster proves it gone
            for machine in self._doubles:
                report(f"{machine.id} is one too many: released", node_name(machine.index))
                await within(self._provider.delete(machine, report))


def retry_after(error: BaseException) -> float:
    """Seconds before which a provider that answered with this does not want to be asked again."""
    return float(getattr(error, "retry_after", 0.0))


def said(error: BaseException) -> str:
    """What the provider answered, in a line."""
    if isinstance(error, TimeoutError):
        return f"no answer in {CALL_SECONDS:.0f} s"
    return " ".join(f"{type(error).__name__}: {error}".split())


def _dead(machine: Machine, provider: str) -> StepFailed:
    name = node_name(machine.index)
    if machine.state is MachineState.GONE:
        fact, remedy = f"{provider} does not list it any more", "bring it up again: another machine takes its place"
    else:
        fact, remedy = f"{provider} says that it is {machine.state}", "look at its console; then try again"
    return StepFailed(f"{name}: its machine {machine.id} does not run: {fact}", remedy, name)
