"""All machines of one reservation, or none: asked for at once, found again by their mark, released and proved gone.

Time is the event loop's: a loop with a clock of its own runs the same waits in no time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from runcrate_iac.errors import Leftover, RuncrateError, StepFailed
from runcrate_iac.machines.provider import Provider, Reservation
from runcrate_iac.model.network import Machine, MachineState, node_name, plan
from runcrate_iac.model.progress import Report

CALL_SECONDS = 30.0
"""How long one question to the provider may take before it is asked again."""
PROOF_SECONDS = 120.0
"""How long the provider may go on listing a machine after its release."""
GRACE = 1.0
"""Seconds after the deadline in which a provider may say for itself what was missing."""
POLL = 2.0
TELL_EVERY = 10.0
LONGEST_PAUSE = 30.0
DEAD = frozenset({MachineState.FAILED, MachineState.STOPPED, MachineState.GONE})

T = TypeVar("T")
OnMachine = Callable[[Machine], None]


async def bring_up(
    request: Reservation, provider: Provider, seconds: float, known: OnMachine, report: Report
) -> tuple[Machine, ...]:
    """Every machine of the reservation, running, by index; the first that can't come up ends the wait for the others.

    ``seconds`` are left until the deadline; ``known`` hears of each machine as soon as it has an id, of a double one
    too, which is released again. Raises :class:`StepFailed` that names the node, the fact and the remedy.
    """
    attempt = _Attempt(request, provider, known, report)
    try:
        async with asyncio.timeout(max(seconds, 0.0) + GRACE):
            return await attempt.whole()
    except TimeoutError:
        raise attempt.out_of_time(seconds) from None
    except ExceptionGroup as group:
        raise _first(group) from None


class _Attempt:
    """What each node waits for, and the way there."""

    def __init__(self, request: Reservation, provider: Provider, known: OnMachine, report: Report) -> None:
        self._request, self._provider, self._known, self._report = request, provider, known, report
        self._watch = Watch(request.cluster_id, provider)
        self._waits: dict[int, str] = {}

    async def whole(self) -> tuple[Machine, ...]:
        telling = asyncio.create_task(self._tell())
        try:
            async with asyncio.TaskGroup() as group:
                for index in range(self._request.nodes):
                    group.create_task(self._one(index))
                group.create_task(self._all_run())
        finally:
            telling.cancel()
        machines = sorted(self._watch.machines.values(), key=lambda machine: machine.index)
        try:
            plan(machines)
        except ValueError as error:
            raise StepFailed(f"machines: {error}", "try again; the provider gave two machines one address") from None
        for machine in await self._watch.release_doubles(self._report):
            self._known(machine)
        return tuple(machines)

    def out_of_time(self, seconds: float) -> StepFailed:
        """Why nothing came of it in time."""
        waits = "; ".join(f"{node_name(index)}: {what}" for index, what in sorted(self._waits.items()))
        first = node_name(min(self._waits, default=0))
        remedy = "see what the provider says of it; a longer `join_timeout` may help a slow machine"
        return StepFailed(f"machines: not up after {seconds:.0f} s: {waits}", remedy, first)

    async def _one(self, index: int) -> None:
        """Ask until there is a machine; a lost answer is looked for by its mark before it is asked again (F12)."""
        pause = 1.0
        while True:
            self._waits[index] = f"asking {self._provider.name} for it"
            try:
                machine = await self._provider.create(self._request, index, self._report)
            except RuncrateError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the answer was, there may be a machine now
                self._wait(index, f"asking again, {self._provider.name} answered: {_said(error)}")
                await asyncio.sleep(max(pause, getattr(error, "retry_after", 0.0)))
                pause = min(pause * 2, LONGEST_PAUSE)
                found = await self._lost_answer(index)
                if found is None:
                    continue
                machine = found
            self._known(machine)
            self._watch.add(machine)
            self._waits[index] = "it is booting"
            return

    async def _lost_answer(self, index: int) -> Machine | None:
        """The machine that an order without an answer made, once the provider had the time to list it."""
        waited = 0.0
        while True:
            found = [machine for machine in await self._listed() if machine.index == index]
            if found and found[0].state not in DEAD:
                return found[0]
            if waited >= self._provider.listing_delay:
                return None
            waited += POLL
            await asyncio.sleep(POLL)

    async def _all_run(self) -> None:
        """Return once all run; raise as soon as the provider says that one won't, while others still start (F16)."""
        while True:
            machines = self._watch.machines.values()
            for machine in machines:
                if machine.state is MachineState.RUNNING:
                    self._waits.pop(machine.index, None)
            if all(machine.state is MachineState.RUNNING for machine in machines):
                if len(machines) == self._request.nodes:
                    return
            elif failures := await self._watch.look():
                raise failures[0]
            await asyncio.sleep(POLL if machines else POLL / 10)

    async def _listed(self) -> Sequence[Machine]:
        """What the provider lists; asked again until it answers, which the deadline ends."""
        pause = 1.0
        while True:
            try:
                return await within(self._provider.list(self._request.cluster_id))
            except RuncrateError:
                raise
            except Exception as error:  # noqa: BLE001 - an answer that says nothing
                self._report(f"{self._provider.name} can't be asked now: {_said(error)}", None)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _wait(self, index: int, what: str) -> None:
        self._waits[index] = what
        self._report(what, node_name(index))

    async def _tell(self) -> None:
        begun = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(TELL_EVERY)
            seconds = asyncio.get_running_loop().time() - begun
            for index, what in sorted(self._waits.items()):
                self._report(f"{what} (for {seconds:.0f} s)", node_name(index))


async def release(
    cluster_id: str, provider: Provider, report: Report, *, unanswered: bool = False
) -> tuple[dict[str, Machine], Sequence[Machine]]:
    """Delete every machine with the mark, then list, until none is left or :data:`PROOF_SECONDS` are over.

    ``unanswered``: some order never had an answer, so that its machine may come to light later: none is taken for gone
    before the provider had the time to list it. Returns every machine that was listed on the way, by id, and those that
    are listed still. Raises :class:`Leftover` where the provider can't be asked at the end (F14).
    """
    time = asyncio.get_running_loop().time
    begun, pause = time(), 0.5
    seen: dict[str, Machine] = {}
    while True:
        try:
            left, why = await _delete_all(cluster_id, provider, seen, report)
        except Exception as error:  # noqa: BLE001 - whatever it is, the machines may still be there
            left, why = None, f"{provider.name} can't be asked: {_said(error)}"
        if left == [] and (not unanswered or time() - begun >= provider.listing_delay):
            return seen, ()
        if time() - begun >= PROOF_SECONDS:
            break
        report(f"asking again: {why}", None)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 10.0)
    if left is None:
        known = f"; it last listed {listed(list(seen.values()))}" if seen else ""
        raise Leftover(f"{cluster_id}: {why}{known}", "run the same again later")
    return seen, left


async def _delete_all(
    cluster_id: str, provider: Provider, seen: dict[str, Machine], report: Report
) -> tuple[list[Machine], str]:
    """Delete what is listed, all at once; what is listed then, and the first thing that the provider had against it."""
    before = await _alive(cluster_id, provider)
    seen |= {machine.id: machine for machine in before}
    if not before:
        return [], "a machine whose order had no answer may still appear"
    calls = (within(provider.delete(machine, report)) for machine in before)
    said = [_said(error) for error in await asyncio.gather(*calls, return_exceptions=True) if error]
    left = await _alive(cluster_id, provider)
    seen |= {machine.id: machine for machine in left}
    return left, f"{len(left)} machines are still there{f' ({said[0]})' if said else ''}"


class Watch:
    """Looks after the machines of a cluster: what the provider says of them now."""

    def __init__(self, cluster_id: str, provider: Provider, machines: Sequence[Machine] = ()) -> None:
        """``machines``: those that are known already."""
        self._cluster_id, self._provider = cluster_id, provider
        self.machines = {machine.id: machine for machine in machines}
        self._seen = dict.fromkeys(self.machines, -math.inf)

    def add(self, machine: Machine) -> None:
        """Look after this one too."""
        self.machines[machine.id] = machine
        self._seen[machine.id] = asyncio.get_running_loop().time()

    async def look(self) -> list[StepFailed]:
        """Why machines are dead; no answer says nothing, nor does one that is too young to be listed."""
        now = asyncio.get_running_loop().time()
        try:
            found = {machine.id: machine for machine in await within(self._provider.list(self._cluster_id))}
        except Exception:  # noqa: BLE001 - the next look will tell
            return []
        for key, machine in self.machines.items():
            if key in found:
                self._seen[key] = now
                self.machines[key] = found[key]
            elif now - self._seen[key] >= self._provider.listing_delay:
                self.machines[key] = machine.model_copy(update={"state": MachineState.GONE})
        return [_dead(machine, self._provider.name) for machine in self.machines.values() if machine.state in DEAD]

    async def release_doubles(self, report: Report) -> list[Machine]:
        """Ask for the end of machines that carry the mark and are none of ours; returns those, gone or not (F12)."""
        try:
            found = await within(self._provider.list(self._cluster_id))
            doubles = [machine for machine in found if machine.id not in self.machines]
            for machine in doubles:
                report(f"{machine.id} is one too many: released", node_name(machine.index))
                await within(self._provider.delete(machine, report))
        except Exception:  # noqa: BLE001 - it is tried again, and the end of the cluster proves it gone
            return []
        return doubles


async def within(call: Awaitable[T]) -> T:
    """The provider's answer, if it comes within :data:`CALL_SECONDS`; raises :class:`TimeoutError` otherwise."""
    async with asyncio.timeout(CALL_SECONDS):
        return await call


def listed(machines: Sequence[Machine]) -> str:
    """The machines as a list for people, with the provider's ids."""
    return ", ".join(f"{node_name(machine.index)} ({machine.id})" for machine in machines)


async def _alive(cluster_id: str, provider: Provider) -> list[Machine]:
    found = await within(provider.list(cluster_id))
    return [machine for machine in found if machine.state is not MachineState.GONE]


def _dead(machine: Machine, provider: str) -> StepFailed:
    name = node_name(machine.index)
    fact = f"{provider} says that it is {machine.state}" if machine.state is not MachineState.GONE else (
        f"{provider} does not list it any more"
    )  # fmt: skip
    return StepFailed(
        f"{name}: its machine {machine.id} does not run: {fact}", "look at its console; then try again", name
    )


def _said(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {CALL_SECONDS:.0f} s"
    return " ".join(f"{type(error).__name__}: {error}".split())


def _first(group: ExceptionGroup) -> Exception:
    """The failure to tell: that of a machine before any other."""
    failed, rest = group.split(RuncrateError)
    chosen = (failed or rest or group).exceptions[0]
    return chosen if not isinstance(chosen, ExceptionGroup) else _first(chosen)
