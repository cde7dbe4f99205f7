"""All machines of one reservation, or none: asked for at once, found again by their mark, released and proved gone.

Time is the event loop's: a loop with a clock of its own runs the same waits in no time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from contextlib import suppress

from runcrate_iac.errors import Leftover, RuncrateError, StepFailed
from runcrate_iac.machines.provider import Provider, Reservation
from runcrate_iac.machines.watch import DEAD, Watch, retry_after, said, within
from runcrate_iac.model.network import Machine, MachineState, node_name, plan
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MOST_NODES

PROOF_SECONDS = 120.0
"""How long the provider may go on listing a machine after its release."""
GRACE = 1.0
"""Seconds after the deadline in which a provider may say for itself what was missing."""
POLL = 2.0
TELL_EVERY = 10.0
LONGEST_PAUSE = 30.0
OnMachine = Callable[[Machine], None]


async def bring_up(
    request: Reservation,
    provider: Provider,
    seconds: float,
    known: OnMachine,
    report: Report,
    *,
    hidden: float = 0.0,
    have: Sequence[Machine] = (),
) -> tuple[Machine, ...]:
    """Every machine of the reservation, running, by index; the first that can't come up ends the wait for the others.

    ``seconds`` are left until the deadline; ``known`` hears of each machine as soon as it has an id, of double and dead
    ones too. ``hidden``: for so many seconds a machine of an earlier order may not be listed yet. ``have``: these run
    and are not asked for. When it returns, the provider lists no other machines with the mark. Raises
    :class:`StepFailed` that names the node, the fact and the remedy.
    """
    attempt = _Attempt(request, provider, known, report, hidden=hidden, have=have)
    try:
        async with asyncio.timeout(max(seconds, 0.0) + GRACE):
            return await attempt.whole()
    except TimeoutError:
        raise attempt.out_of_time(seconds) from None
    except ExceptionGroup as group:
        raise _first(group) from None


class _Attempt:
    """What each node waits for, and the way there."""

    def __init__(
        self,
        request: Reservation,
        provider: Provider,
        known: OnMachine,
        report: Report,
        *,
        hidden: float,
        have: Sequence[Machine],
    ) -> None:
        self._request, self._provider, self._known, self._report = request, provider, known, report
        self._hidden = hidden
        self._watch = Watch(request.cluster_id, provider, have)
        self._missing = sorted(set(range(request.nodes)) - {machine.index for machine in have})
        self._waits: dict[int, str] = {}

    async def whole(self) -> tuple[Machine, ...]:
        telling = asyncio.create_task(self._tell())
        try:
            async with asyncio.TaskGroup() as group:
                for index in self._missing:
                    group.create_task(self._one(index))
                group.create_task(self._all_run())
        finally:
            telling.cancel()
        machines = sorted(self._watch.machines.values(), key=lambda machine: machine.index)
        try:
            plan(machines)
        except ValueError as error:
            raise StepFailed(f"machines: {error}", "try again; the provider gave two machines one address") from None
        await self._only_ours()
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
        if self._hidden:
            self._waits[index] = f"looking whether {self._provider.name} made it already"
            await self._ordered(index, self._hidden)
        while True:
            self._waits[index] = f"asking {self._provider.name} for it"
            try:
                machine = await self._provider.create(self._request, index, self._report)
            except RuncrateError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the answer was, there may be a machine now
                self._wait(index, f"asking again, {self._provider.name} answered: {said(error)}")
                await asyncio.sleep(max(pause, retry_after(error)))
                pause = min(pause * 2, LONGEST_PAUSE)
                found = await self._ordered(index, self._provider.listing_delay)
                if found is None:
                    continue
                machine = found
            self._known(machine)
            self._watch.add(machine)
            self._waits[index] = "it is booting"
            return

    async def _ordered(self, index: int, hidden: float) -> Machine | None:
        """The machine that an earlier order made, if the provider lists it within ``hidden`` seconds."""
        time = asyncio.get_running_loop().time
        end = time() + hidden
        while True:
            late = time() >= end
            for machine in await self._listed():
                if machine.index == index:
                    self._known(machine)
                    if machine.state not in DEAD:
                        return machine
            if late:
                return None
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
            else:
                await self._look()
            await asyncio.sleep(POLL if machines else POLL / 10)

    async def _look(self) -> None:
        """Raise why a machine is dead, or what the provider says for good."""
        try:
            failures = await self._watch.ask()
        except RuncrateError:
            raise
        except Exception:  # noqa: BLE001 - the next look will tell
            return
        if failures:
            raise failures[0]

    async def _only_ours(self) -> None:
        """Release what carries the mark and is none of ours, until the provider lists nothing else (F12)."""
        what, node = f"{self._provider.name} does not say which machines there are", None
        try:
            async with asyncio.timeout(PROOF_SECONDS):
                while doubles := await self._doubles():
                    node = node_name(doubles[0].index)
                    what = f"{node}: {doubles[0].id} is one machine too many, and can't be released"
                    calls = (within(self._provider.delete(machine, self._report)) for machine in doubles)
                    errors = [error for error in await asyncio.gather(*calls, return_exceptions=True) if error]
                    await asyncio.sleep(max(POLL, *map(retry_after, errors), 0.0))
        except TimeoutError:
            raise StepFailed(what, "look what the provider says of it; then try again", node) from None

    async def _doubles(self) -> list[Machine]:
        found = [machine for machine in await self._listed() if machine.state is not MachineState.GONE]
        doubles = [machine for machine in found if machine.id not in self._watch.machines]
        for machine in doubles:
            self._known(machine)
            self._report(f"{machine.id} is one too many: released", node_name(machine.index))
        return doubles

    async def _listed(self) -> Sequence[Machine]:
        """What the provider lists; asked again until it answers, which the deadline ends."""
        pause = 1.0
        while True:
            try:
                return await within(self._provider.list(self._request.cluster_id))
            except RuncrateError:
                raise
            except Exception as error:  # noqa: BLE001 - an answer that says nothing
                self._report(f"{self._provider.name} can't be asked now: {said(error)}", None)
                await asyncio.sleep(max(pause, retry_after(error)))
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
    cluster_id: str,
    provider: Provider,
    report: Report,
    *,
    hidden: float = 0.0,
    known: OnMachine | None = None,
    nodes: Container[int] = range(MOST_NODES),
) -> tuple[dict[str, Machine], Sequence[Machine]]:
    """Delete every machine with the mark, then list, until none is left or :data:`PROOF_SECONDS` are over.

    ``nodes``: only machines of these, by their numbers; the others are left alone, and are not told of.
    ``hidden``: for so many seconds a machine of an earlier order may not be listed yet, and is not taken for gone.
    ``known`` hears of each machine that is listed. Returns every machine that was listed on the way, by id, and those
    that are listed still. Raises :class:`Leftover` where the provider can't be asked at the end (F14).
    """
    time = asyncio.get_running_loop().time
    begun, pause = time(), 0.5
    seen: dict[str, Machine] = {}
    left: Sequence[Machine] = ()
    why = f"{provider.name} has not answered in {PROOF_SECONDS + hidden:.0f} s"

    def listed_now(machines: Sequence[Machine]) -> None:
        for machine in machines:
            seen[machine.id] = machine
            if known:
                known(machine)

    with suppress(TimeoutError):
        async with asyncio.timeout(PROOF_SECONDS + hidden):
            while True:
                old_enough = time() - begun >= hidden
                try:
                    left, errors = await _delete_all(cluster_id, provider, nodes, listed_now, report)
                except Exception as error:  # noqa: BLE001 - whatever it is, the machines may still be there
                    left, errors, why = (), [error], f"{provider.name} can't be asked: {said(error)}"
                else:
                    if not left and old_enough:
                        return seen, ()
                    why = f"{listed(left)} is still there" if left else "a machine may not be listed yet"
                    why += f" ({said(errors[0])})" if errors else ""
                report(f"asking again: {why}", None)
                await asyncio.sleep(max(pause, *map(retry_after, errors), 0.0))
                pause = min(pause * 2, 10.0)
    if not left:
        last = f"; it last listed {listed(list(seen.values()))}" if seen else ""
        raise Leftover(f"{cluster_id}: {why}{last}", "run the same again later")
    return seen, left


async def _delete_all(
    cluster_id: str,
    provider: Provider,
    nodes: Container[int],
    listed_now: Callable[[Sequence[Machine]], None],
    report: Report,
) -> tuple[Sequence[Machine], list[BaseException]]:
    """Delete what is listed, all at once; what is listed then, and what the provider had against it."""
    before = await _alive(cluster_id, provider, nodes)
    listed_now(before)
    if not before:
        return (), []
    calls = (within(provider.delete(machine, report)) for machine in before)
    errors = [error for error in await asyncio.gather(*calls, return_exceptions=True) if error]
    left = await _alive(cluster_id, provider, nodes)
    listed_now(left)
    return left, errors


def listed(machines: Sequence[Machine]) -> str:
    """The machines as a list for people, with the provider's ids."""
    return ", ".join(f"{node_name(machine.index)} ({machine.id})" for machine in machines)


async def _alive(cluster_id: str, provider: Provider, nodes: Container[int]) -> list[Machine]:
    found = await within(provider.list(cluster_id))
    return [machine for machine in found if machine.state is not MachineState.GONE and machine.index in nodes]


def _first(group: ExceptionGroup) -> Exception:
    """The failure to tell: that of a machine before any other."""
    failed, rest = group.split(RuncrateError)
    chosen = (failed or rest or group).exceptions[0]
    return chosen if not isinstance(chosen, ExceptionGroup) else _first(chosen)
