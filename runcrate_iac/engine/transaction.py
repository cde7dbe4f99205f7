"""One transaction over machines, network, storage and software: whole, or everything released (C8, C9, X1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import NoReturn

from runcrate_iac.engine.install import Engine
from runcrate_iac.engine.interrupts import Interrupts
from runcrate_iac.engine.program import owner, program
from runcrate_iac.engine.pulumi import Stack, end_orphans, left_behind
from runcrate_iac.engine.undo import Undoing, undo
from runcrate_iac.errors import Degraded, Failed, Leftover, Refused, RuncrateError, StateUnwritable
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed, follow, position
from runcrate_iac.ledger.view import Entry, Note, View
from runcrate_iac.lock import COMMAND_WAITS, at_work, locked
from runcrate_iac.machines import replace
from runcrate_iac.machines import step as machines
from runcrate_iac.machines.growth import told
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model.conditions import Condition, broken, sentences
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.progress import Event, Step
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision import journals
from runcrate_iac.provision.growth import take_back
from runcrate_iac.specfile import script_of

UNFINISHED = (State.PROVISIONING, State.FAILED, State.TERMINATING)
"""States of a cluster that Pulumi may not know of."""
PREPARE_SECONDS = 2 * 3600.0
"""How long Pulumi may run before anything is reserved: where images are built, booted and filled on a slow computer,
that takes most of an hour. Nothing is billed by then, and the clock of the cluster does not run (C8)."""
BACKSTOP_SECONDS = 30.0
"""How long after the deadline a Pulumi operation that hangs is cut off; the steps themselves keep the deadline."""
KILL_SECONDS = 20.0
"""How long an operation that was asked to end may take before it is killed."""

OnEvent = Callable[[Event], None]


def up(spec: ClusterSpec, engine: Engine, on_event: OnEvent, *, replace_head: bool = False) -> tuple[View, int]:
    """Bring the cluster up whole; return it and the number of resources that changed.

    One that is up is repaired, and grows where ``spec`` has more nodes. ``replace_head``: go on without what was on the
    head's disk where that is lost.

    Raises :class:`Refused` before anything is touched; :class:`Failed` when everything is released again;
    :class:`~runcrate_iac.errors.Leftover` where that can't be proved; :class:`Degraded` when the machines
    are up and storage or software is not.
    """
    ledger = Ledger()
    with locked(spec.name, "up"), Interrupts(spec.name, "rolling back") as interrupts:
        before = ledger.current(spec.name)
        if before is not None:
            machines.refuse_change(before, spec, owner(spec.name))
            before = _as_it_is(before, ledger, on_event, replace_head=replace_head)
        if before is not None:
            machines.refuse_change(before, spec, owner(spec.name))
        elif left_behind(spec.name):
            Stack(engine, spec.name).destroy()  # of a cluster that has been released, or was never made
        since = max((entry.seq for entry in ledger.entries(spec.name)), default=0)
        stack = Stack(engine, spec.name, program(spec), Feed(spec.name, Step.MACHINES, on_event).report)
        interrupts.on_second = stack.kill
        try:
            changed = _watched(stack, spec, ledger, interrupts, on_event)
        except Exception as error:  # noqa: BLE001 - whatever it was, the cluster is whole or it is released
            news = _News(error, ledger.entries(spec.name, since), fresh=before is None)
            _settle(spec, stack, ledger, on_event, news)
        view = ledger.current(spec.name)
        if view is None:
            raise Failed(f"{spec.name} was ended while it came up")
        return view, changed


def retry(name: str, engine: Engine, on_event: OnEvent, *, replace_head: bool = False) -> tuple[View, int]:
    """Do again what is not done of a joined cluster, as it was declared last; its set-up script is read anew.

    Takes ``replace_head``, returns and raises as :func:`up` does, which looks for lost machines too; and raises
    :class:`Refused` where there is nothing to go on with, or another stack has to.
    """
    view = Ledger().current(name)
    if view is None:
        raise Refused(f"{name} is not up", "bring it up: runcrate-iac up SPEC")
    if view.owner != owner(name):
        raise Refused(f"{name} belongs to the Pulumi stack {view.owner}", "run `pulumi up` in that project")
    if view.state is State.PROVISIONING:
        raise Refused(
            f"{name} has not joined since {view.reserved_at:%Y-%m-%d %H:%M} UTC",
            f"wait for its `up`; where that was killed, run it again, or runcrate-iac down {name}",
        )
    if view.state not in (State.INSTALLING, State.READY, State.DEGRADED):
        raise Refused(f"{name} is {view.state}", f"runcrate-iac down {name}, then bring it up again")
    script_of(view.spec)
    return up(view.spec, engine, on_event, replace_head=replace_head)


def down(
    name: str, engine: Engine | None, on_event: OnEvent, *, faults: bool = True, stack_gone: bool = False
) -> View | None:
    """Release every machine together and prove it, then tidy Pulumi's state; None where there was nothing to do.

    ``faults``: those of the cluster's spec are injected still (X8). A cluster of another stack is ended by that stack,
    unless it never came up, where Pulumi may not know of it, or ``stack_gone``. Raises :class:`Refused` where it is
    another stack's, or a step of that stack is at work;
    :class:`~runcrate_iac.errors.Leftover` where a machine can't be proved gone: it can be called again.
    """
    ledger = Ledger()
    with locked(name, "down"), Interrupts(name, "finishing") as interrupts:
        view = ledger.current(name)
        if view is not None:
            if view.owner != owner(name) and view.state not in UNFINISHED and not stack_gone:
                raise Refused(
                    f"{name} belongs to the Pulumi stack {view.owner}",
                    "run `pulumi destroy` in that project; where that stack is gone for good: "
                    f"runcrate-iac down {name} --stack-gone",
                )
            if view.spec.faults and not faults:
                sound = view.spec.model_copy(update={"faults": ()})
                ledger.note(name, view.cluster_id, Note.SPEC_CHANGED, spec=sound.model_dump(mode="json"))
            open_stack = partial(_opened, engine, name, interrupts, on_event) if engine else None
            undoing = Undoing(view, machines.release, ledger, on_event, open_stack)
            end_orphans(name)
            with at_work(name, "down", Feed(name, Step.MACHINES, on_event).report, COMMAND_WAITS):
                for failure in undo(undoing):
                    raise failure
            return undoing.view
        if engine is not None and left_behind(name):
            _opened(engine, name, interrupts, on_event).destroy()
        return None


def _opened(engine: Engine, name: str, interrupts: Interrupts, on_event: OnEvent) -> Stack:
    stack = Stack(engine, name, report=Feed(name, Step.MACHINES, on_event).report)
    interrupts.on_second = stack.kill
    return stack


def _as_it_is(view: View, ledger: Ledger, on_event: OnEvent, *, replace_head: bool) -> View | None:
    """The running cluster once a growth that a killed command left is undone, and lost machines are noted.

    None where a killed command left machines that have not joined by their deadline: they are released.
    """
    if view.missed(ledger.now()):
        end = partial(machines.give_up, reason=machines.too_late(view))
        for failure in undo(Undoing(view, end, ledger, on_event, None)):
            raise failure
        return None
    if view.growth is not None:
        end_orphans(view.name)
        reason = "the command that added workers was ended"
        feed = Feed(view.name, Step.MACHINES, on_event)
        view = take_back(view, ledger, feed, reason=reason, touched=view.growth.joining)
    _notice_lost(view, ledger, replace_head=replace_head)
    return ledger.current(view.name) or view


def _notice_lost(view: View, ledger: Ledger, *, replace_head: bool) -> None:
    """Put a machine that no longer runs into the ledger, so that the steps run again and repair it.

    Raises :class:`Refused` where the head is gone for good, unless it is to be replaced.
    """
    dead, gone = asyncio.run(replace.look(view, provider_of(view.spec), ledger))
    lost = [failure.node for failure in dead]
    if lost and view.state is State.READY:
        ledger.record(view.name, view.cluster_id, Happened.NODE_LOST, reason=dead[0].message)
    elif lost:
        ledger.note(view.name, view.cluster_id, Note.MACHINE_LOST, nodes=lost)
    if replace_head and any(machine.index == 0 for machine in gone):
        view = replace.agree(view, ledger)
    replace.refuse_silent_loss(view, gone)


class _Interrupted(RuncrateError):
    """Ctrl-C, SIGTERM or SIGHUP."""


class _TooLate(RuncrateError):
    """The operation outlived the cluster's deadline."""


def _watched(stack: Stack, spec: ClusterSpec, ledger: Ledger, interrupts: Interrupts, on_event: OnEvent) -> int:
    """Run ``stack.up`` in a thread; this one passes the news on, and ends it on an interrupt or when it is late."""
    if interrupts.asked:
        raise _Interrupted("interrupted")
    done: Future[int] = Future()
    thread = Thread(target=_into, args=(done, stack.up), name="pulumi up", daemon=True)
    ending: list[tuple[float, RuncrateError]] = []

    def wait() -> bool:
        thread.join(0.1)
        if ending and time.monotonic() > ending[0][0]:
            stack.kill()
        elif not ending and (reason := _reason_to_end(spec.name, latest, ledger, interrupts)) and stack.interrupt():
            ending.append((time.monotonic() + KILL_SECONDS, reason))
        return thread.is_alive()

    start, latest = position(spec.name), time.time() + PREPARE_SECONDS
    thread.start()
    try:
        for event in follow(spec.name, start, wait):
            on_event(event)
    finally:
        if thread.is_alive():
            stack.kill()
            thread.join(KILL_SECONDS)
    if ending:
        raise ending[0][1]
    if interrupts.asked:
        raise _Interrupted("interrupted")
    return done.result()


def _into(done: Future[int], work: Callable[[], int]) -> None:
    try:
        done.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
        done.set_exception(error)


def _reason_to_end(name: str, latest: float, ledger: Ledger, interrupts: Interrupts) -> RuncrateError | None:
    """Why a running operation has to end now; ``latest``: its deadline until machines are reserved (epoch seconds)."""
    if interrupts.asked:
        return _Interrupted("interrupted")
    view = ledger.current(name)
    starting = view is None or view.state is State.PROVISIONING or view.growth is not None
    goal, deadline = ("joined", machines.made(view).deadline.timestamp()) if view else ("reserved", latest)
    if starting and time.time() > deadline + BACKSTOP_SECONDS:
        return _TooLate(
            f"not {goal} by {time.strftime('%H:%M:%S', time.gmtime(deadline))} UTC, and Pulumi does not end"
        )
    return None


class _News:
    """What an attempt put into the ledger before it failed."""

    def __init__(self, error: Exception, entries: list[Entry], *, fresh: bool) -> None:
        self.error = error
        self.fresh = fresh
        self.reserved = any(entry.type == Happened.RESERVED for entry in entries) or not fresh
        failed = [entry.data for entry in entries if entry.type == Note.STEP_ENDED and not entry.data["ok"]]
        found = [Condition.model_validate(c) for c in failed[-1]["conditions"]] if failed else []
        facts = sentences(found)
        nodes = dict.fromkeys(condition.node for condition in broken(found) if condition.node)
        self.logs = [tail for node in nodes if entries and (tail := journals.tail(entries[0].cluster, node))]
        self.growth_undone = any(entry.type == Note.GROWTH_UNDONE for entry in entries)
        self.interrupted = isinstance(error, _Interrupted)
        self.what = "interrupted" if self.interrupted else facts or getattr(error, "message", repr(error))
        self.remedy = "" if facts else getattr(error, "remedy", "")


def _settle(spec: ClusterSpec, stack: Stack, ledger: Ledger, on_event: OnEvent, news: _News) -> NoReturn:
    """Decide what a failed attempt leaves, everything released or a degraded cluster, and raise which."""
    view = ledger.latest(spec.name)
    if view is None or view.owner != owner(spec.name) or not news.reserved:
        raise Failed(f"{spec.name}: nothing was reserved: {news.what}", news.remedy) from news.error
    abandoned = news.fresh and news.interrupted
    if abandoned or view.state in (State.PROVISIONING, State.FAILED):
        end = partial(machines.give_up, reason=news.what)
        undoing = Undoing(view, end, ledger, on_event, lambda: stack)
        failures = undo(undoing)
        if failures and isinstance(failures[0], Leftover):
            raise failures[0] from news.error
        untidy = [f"not tidied, the next `up` or `down` does it: {failure}" for failure in failures]
        raise Failed(
            "\n".join([f"{spec.name}: {news.what}", *news.logs, machines.told(undoing.view), *untidy]),
            news.remedy or f"runcrate-iac events {spec.name} tells what happened; nothing starts again by itself",
        ) from news.error
    if view.growth is not None or news.growth_undone:
        view = _growth_settled(view, ledger, on_event, news)
    if view.state is State.INSTALLING:
        # A full disk: the machines are up all the same. Or a step that was ending has said it meanwhile.
        with suppress(StateUnwritable, ValueError):
            ledger.record(spec.name, view.cluster_id, Happened.INSTALL_FAILED, reason=news.what)
        view = ledger.latest(spec.name) or view
    raise Degraded(
        f"{spec.name} is {view.state}: {news.what}",
        news.remedy or f"mend that, then run: runcrate-iac retry {spec.name}",
    ) from news.error


def _growth_settled(view: View, ledger: Ledger, on_event: OnEvent, news: _News) -> View:
    """Release the workers that were to be added, where their steps have not done so, and raise that none was added.

    Returns a cluster that has a fault of its own by now, and is degraded.
    """
    after = view
    if view.growth is not None:
        end_orphans(view.name)
        feed = Feed(view.name, Step.MACHINES, on_event)
        after = take_back(view, ledger, feed, reason=news.what, touched=view.growth.joining)
    if after.state is State.READY:
        said = f"{view.name} is ready, as it was, with {after.spec.nodes} nodes"
        raise Failed(
            "\n".join([f"{view.name}: no worker was added: {news.what}", *news.logs, told(after), said]),
            news.remedy or f"runcrate-iac events {view.name} tells what happened; nothing starts again by itself",
        ) from news.error
    return after
