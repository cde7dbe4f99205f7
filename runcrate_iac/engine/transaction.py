"""One transaction over machines, network, storage and software: whole, or everything released (C8, C9, X1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

from runcrate_iac.engine.install import Engine
from runcrate_iac.engine.interrupts import Interrupts
from runcrate_iac.engine.lock import locked
from runcrate_iac.engine.program import owner, program
from runcrate_iac.engine.pulumi import PulumiFailed, Stack, end_orphans
from runcrate_iac.errors import Degraded, Failed, Refused, RuncrateError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed, follow, position
from runcrate_iac.ledger.view import View
from runcrate_iac.machines import step as machines
from runcrate_iac.machines.registry import provider
from runcrate_iac.model.conditions import broken, sentence
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.progress import Event, Step
from runcrate_iac.model.spec import ClusterSpec

BACKSTOP_SECONDS = 30.0
"""How long after the deadline a Pulumi operation that hangs is cut off; the steps themselves keep the deadline."""
KILL_SECONDS = 20.0
"""How long an operation that was asked to end may take before it is killed."""

OnEvent = Callable[[Event], None]


def up(spec: ClusterSpec, engine: Engine, on_event: OnEvent) -> tuple[View, int]:
    """Bring the cluster up whole; return it and the number of resources that changed.

    Raises :class:`Refused` before anything is touched; :class:`Failed` when everything is released again;
    :class:`~runcrate_iac.errors.Leftover` where that can't be proved; :class:`Degraded` when the machines
    are up and storage or software is not.
    """
    ledger = Ledger()
    with locked(spec.name, "up"), Interrupts(spec.name) as interrupts:
        before = ledger.current(spec.name)
        if before is not None:
            machines.refuse_change(before, spec, owner(spec.name))
        stack = Stack(engine, spec.name, program(spec))
        interrupts.on_second = stack.kill
        try:
            changed = _watched(stack, spec, ledger, interrupts, on_event)
        except (PulumiFailed, _Interrupted, _TooLate) as error:
            _settle(spec, stack, ledger, error, on_event, fresh=before is None)
            raise
        view = ledger.current(spec.name)
        if view is None:
            raise Failed(f"{spec.name} was ended while it came up")
        return view, changed


def down(name: str, engine: Engine | None, on_event: OnEvent) -> View | None:
    """Release every machine together and prove it, then tidy Pulumi's state; None where there was nothing to do.

    Raises :class:`Refused` where the cluster is another stack's;
    :class:`~runcrate_iac.errors.Leftover` where a machine can't be proved gone: it can be called again.
    """
    ledger = Ledger()
    with locked(name, "down"), Interrupts(name):
        view = ledger.current(name)
        if view is None:
            return None
        if view.owner != owner(name):
            raise Refused(f"{name} belongs to the Pulumi stack {view.owner}", "run `pulumi destroy` in that project")
        after = _release(view, ledger, on_event)
        if engine is not None:
            Stack(engine, name).destroy()
        return after


class _Interrupted(RuncrateError):
    """Ctrl-C, SIGTERM or SIGHUP."""


class _TooLate(RuncrateError):
    """The operation outlived the cluster's deadline."""


def _watched(stack: Stack, spec: ClusterSpec, ledger: Ledger, interrupts: Interrupts, on_event: OnEvent) -> int:
    """Run ``stack.up`` in a thread; this one passes the news on, and ends it on an interrupt or when it is late."""
    result: list[int] = []
    errors: list[BaseException] = []
    ending: list[tuple[float, RuncrateError]] = []

    def work() -> None:
        try:
            result.append(stack.up())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            errors.append(error)

    thread = Thread(target=work, name="pulumi up", daemon=True)

    def wait() -> bool:
        thread.join(0.1)
        if ending and time.monotonic() > ending[0][0]:
            stack.kill()
        elif not ending and (reason := _reason_to_end(spec.name, ledger, interrupts)):
            ending.append((time.monotonic() + KILL_SECONDS, reason))
            stack.interrupt()
        return thread.is_alive()

    start = position(spec.name)
    thread.start()
    for event in follow(spec.name, start, wait):
        on_event(event)
    if ending:
        raise ending[0][1]
    if errors:
        raise errors[0]
    return result[0]


def _reason_to_end(name: str, ledger: Ledger, interrupts: Interrupts) -> RuncrateError | None:
    if interrupts.asked:
        return _Interrupted("interrupted")
    view = ledger.current(name)
    if view and view.state is State.PROVISIONING and time.time() > view.deadline.timestamp() + BACKSTOP_SECONDS:
        return _TooLate(f"not joined by {view.deadline:%H:%M:%S} UTC, and the step does not end by itself")
    return None


def _settle(
    spec: ClusterSpec, stack: Stack, ledger: Ledger, error: RuncrateError, on_event: OnEvent, *, fresh: bool
) -> None:
    """Decide what a failed attempt leaves: everything released, or a degraded cluster; raises which."""
    view = ledger.current(spec.name)
    if view is None or view.owner != owner(spec.name):
        raise Failed(f"{spec.name}: nothing was reserved: {error.message}", error.remedy) from error
    facts = "\n".join(sentence(condition) for condition in broken(view.conditions)) or error.message
    abandoned = fresh and isinstance(error, _Interrupted)
    if view.state is State.PROVISIONING or abandoned:
        if view.state is State.PROVISIONING:
            ledger.record(spec.name, view.cluster_id, Happened.START_FAILED, reason=facts)
        _release(view, ledger, on_event)
        stack.destroy()
        what = "interrupted" if isinstance(error, _Interrupted) else facts
        count = len(view.machines) or spec.nodes
        raise Failed(
            f"{spec.name}: {what}\nreleased {count} of {count} machines, nothing is billed",
            f"runcrate-iac events {spec.name} tells what happened; nothing starts again by itself",
        ) from error
    raise Degraded(f"{spec.name} is {view.state}: {facts}", f"mend that, then run the same `up` again: {spec.name}")


def _release(view: View, ledger: Ledger, on_event: OnEvent) -> View:
    """Release without Pulumi, which may be what broke."""
    end_orphans(view.name)
    feed = Feed(view.name, Step.MACHINES, on_event)
    latest = ledger.current(view.name) or view
    after = machines.release(latest, provider(view.spec.provider), ledger, feed.report, time.sleep)
    machines.forget(view.name)
    return after
