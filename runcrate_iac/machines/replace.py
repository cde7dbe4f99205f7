"""Machines of a cluster that are gone for good: noted with their proof, so that others take their place (X1, X5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from runcrate_iac.errors import Refused, RuncrateError, StepFailed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines import gone
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.provider import Provider
from runcrate_iac.machines.watch import Watch, retry_after, said
from runcrate_iac.model.network import Machine, MachineState, node_name
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import Software
from runcrate_iac.model.storage import has_shared_folder

DISK_LOST = frozenset({MachineState.GONE, MachineState.FAILED})
"""States of a machine whose disk is lost; one that is stopped starts again from it."""
ANSWER_SECONDS = 120.0
"""How long the provider may take to say which machines of a cluster there still are."""
POLL = 2.0

_LOST_WITH_HEAD: dict[Software, list[str]] = {
    Software.NONE: [],
    Software.SLURM: ["Slurm's queue and the accounting of all jobs"],
    Software.KUBERNETES: ["the control plane with its authority and all that it knew"],
    Software.RAY: ["Ray's list of jobs and what they kept"],
}


async def look(view: View, provider: Provider, ledger: Ledger) -> tuple[list[StepFailed], list[Machine]]:
    """Why machines of a cluster that is up do not run, and which of them are gone for good, by the provider's word."""
    if view.joined_at is None or provider.name == GivenProvider.name:  # those are the user's own program's
        return [], []
    watch = Watch(view.cluster_id, provider, view.machines, gone.hidden(view, provider, ledger.now()))
    dead = await watch.look()
    return dead, _for_good(view, watch)


async def find(view: View, provider: Provider, ledger: Ledger, report: Report) -> list[Machine]:
    """Which machines of a cluster that is up are gone for good; the provider is asked until it has said so.

    A list that is not answered, or is too young to have all, would let a lost head be replaced silently. Raises
    :class:`StepFailed` where there is no answer within :data:`ANSWER_SECONDS`.
    """
    if view.joined_at is None or provider.name == GivenProvider.name:
        return []
    time, watch = asyncio.get_running_loop().time, Watch(view.cluster_id, provider, view.machines)
    hidden = gone.hidden(view, provider, ledger.now())
    end, why = time() + hidden, "no answer"
    try:
        async with asyncio.timeout(hidden + ANSWER_SECONDS):
            while True:
                pause = POLL
                try:
                    await watch.ask()
                except RuncrateError:
                    raise
                except Exception as error:  # noqa: BLE001 - an answer that says nothing
                    pause, why = max(POLL, retry_after(error)), said(error)
                    report(f"{provider.name} can't be asked now: {why}", None)
                else:
                    if time() >= end or all(one.state is not MachineState.GONE for one in watch.machines.values()):
                        return _for_good(view, watch)
                await asyncio.sleep(pause)
    except TimeoutError:
        fact = f"{provider.name} does not say which machines of {view.name} there are: {why}"
        raise StepFailed(fact, "try again later; nothing was changed") from None


def _for_good(view: View, watch: Watch) -> list[Machine]:
    """Those that have nothing to go on with.

    One that was stopped before it had joined is among them: its lease has ended it, and would do so at every start.
    """
    return [
        machine
        for machine in watch.machines.values()
        if machine.state in DISK_LOST or (machine.state is MachineState.STOPPED and machine.id not in view.joined)
    ]


def refuse_growth(view: View, lost: Sequence[Machine]) -> None:
    """Raise :class:`StepFailed` where workers are being added to a cluster whose own machines are not all there."""
    if view.growth and lost:
        names = " and ".join(f"{node_name(machine.index)} ({machine.id})" for machine in lost)
        raise StepFailed(
            f"the machine of {names} is gone for good, and workers are added only to a cluster that is whole",
            f"runcrate-iac status {view.name} --check, then `up` with {view.spec.nodes} nodes replaces it; then grow",
            node_name(lost[0].index),
        )


async def clear(view: View, lost: Sequence[Machine], provider: Provider, ledger: Ledger, report: Report) -> View:
    """Release what the provider still lists of machines that are gone for good, and note each with its proof.

    Raises :class:`Refused` where the head is among them and nobody has agreed to lose what was on it;
    :class:`~runcrate_iac.errors.Leftover` where the provider goes on listing one.
    """
    if not lost:
        return view
    refuse_silent_loss(view, lost)
    for machine in lost:
        report("its machine is gone for good, another one takes its place", node_name(machine.index))
    await gone.end(view, provider, ledger, report, nodes={machine.index for machine in lost})
    return ledger.latest(view.name) or view


def refuse_silent_loss(view: View, lost: Sequence[Machine]) -> None:
    """Raise :class:`Refused` that says what is lost with the head, where it is gone and nobody has agreed to that."""
    if all(machine.index != 0 for machine in lost):
        return
    end = f"end the cluster: runcrate-iac down {view.name}"
    fact = f"{view.name}: the machine of node-0, the head, is gone for good, and with its disk: {lost_with_head(view)}"
    if view.spec.software is Software.KUBERNETES:  # the workers trust the lost authority, and no other
        raise Refused(fact, end)
    if not view.head_given_up:
        raise Refused(
            fact,
            f"`up` with --replace-head goes on without them on a new head, the other nodes stay as they are; or {end}",
        )


def lost_with_head(view: View) -> str:
    """What only the head had, in words (C19, C22)."""
    shared = ["everything in /shared"] if has_shared_folder(view.spec.machine) else ["what was in its home folders"]
    return " and ".join(shared + _LOST_WITH_HEAD[view.spec.software])


def agree(view: View, ledger: Ledger) -> View:
    """Note that the user goes on without what the head had."""
    ledger.note(view.name, view.cluster_id, Note.HEAD_GIVEN_UP, reason=f"lost with it: {lost_with_head(view)}")
    return ledger.latest(view.name) or view
