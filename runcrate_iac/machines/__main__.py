"""The machines step as a process: ``python -m runcrate_iac.machines reserve|update|release < document``."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from datetime import datetime

from runcrate_iac import steps
from runcrate_iac.errors import Refused, SpecError, StateUnwritable, StepFailed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.ledger.view import View
from runcrate_iac.lock import STEP_WAITS, at_work
from runcrate_iac.machines import gone, growth, step
from runcrate_iac.machines.provider import Provider
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model import faults
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.documents import MachinesJob
from runcrate_iac.model.lifecycle import State, after_step
from runcrate_iac.model.progress import Mark, Outcome, Step


def main() -> None:
    """Reserve or release; an update reserves too, of a cluster that Pulumi has made before."""
    verb = sys.argv[1] if len(sys.argv) == 2 else ""  # noqa: PLR2004
    if verb not in ("reserve", "update", "release"):
        raise SpecError("usage: python -m runcrate_iac.machines reserve|update|release < document")
    job = MachinesJob.model_validate_json(sys.stdin.read())
    ledger, feed, source = Ledger(), Feed(job.spec.name, Step.MACHINES), provider_of(job.spec, job.given)
    if verb != "reserve":
        steps.refuse_unknown(ledger, job.spec.name, resource=job.resource, owner=job.owner)
    # A command that ends a cluster holds the lock while Pulumi tidies up after it, and there is nothing to do then.
    if verb == "release" and _to_end(job, ledger) is None:
        return
    with at_work(job.spec.name, Step.MACHINES, feed.report, STEP_WAITS):
        _release(job, source, ledger, feed) if verb == "release" else _reserve(job, source, ledger, feed)


def _reserve(job: MachinesJob, source: Provider, ledger: Ledger, feed: Feed) -> None:
    began, begun = ledger.now(), time.monotonic()
    feed.tell(Mark.STARTED, f"reserving {job.spec.nodes} machines")
    if job.spec.faults:
        feed.report(faults.told(job.spec.faults), None)
    try:
        step.prepare(job, source, ledger, feed.report)
        made = asyncio.run(step.reserve(job, source, ledger, feed.report))
        _refuse_ended(_ended_since(began, job, ledger))
    except BaseException as error:
        feed.tell(Mark.FAILED, str(error) or type(error).__name__, getattr(error, "node", None))
        with suppress(StateUnwritable), ledger.keeping(feed.report):  # a full disk keeps no machine alive
            if ended := _ended_since(began, job, ledger):
                asyncio.run(gone.end(ended, source, ledger, feed.report))
            elif (view := ledger.current(job.spec.name)) and view.owner == job.owner and not _untouched(view, error):
                _fail(view, error, source, ledger, feed, seconds=round(time.monotonic() - begun, 1))
        raise
    seconds = round(time.monotonic() - begun, 1)
    up = Condition(type="MachinesUp", status=Status.TRUE, reason="AllUp", message=f"{job.spec.nodes} machines up")
    outcome = Outcome(step=Step.MACHINES, ok=True, conditions=(up,))
    steps.note_end(ledger, job.spec.name, made.cluster_id, outcome, seconds)
    feed.tell(Mark.DONE, f"done in {seconds} s")
    sys.stdout.write(made.model_dump_json() + "\n")


def _untouched(view: View, error: BaseException) -> bool:
    """Whether a cluster that is up was asked for something that is refused, and nothing was done."""
    return isinstance(error, Refused | SpecError) and view.joined_at is not None and view.growth is None


def _fail(view: View, error: BaseException, source: Provider, ledger: Ledger, feed: Feed, *, seconds: float) -> None:
    """Note the failure; what was starting is given up at once, since Pulumi deletes only what was made."""
    condition = Condition(
        type="MachinesUp",
        status=Status.FALSE,
        reason=type(error).__name__,
        message=str(getattr(error, "message", error)) or "interrupted",
        remedy=getattr(error, "remedy", ""),
        node=getattr(error, "node", None),
    )
    outcome = Outcome(step=Step.MACHINES, ok=False, conditions=(condition,))
    steps.note_end(ledger, view.name, view.cluster_id, outcome, seconds)
    if view.state is State.PROVISIONING:
        asyncio.run(step.give_up(view, source, ledger, feed.report, reason=condition.message))
        step.forget(view.name)
    elif view.growth:
        asyncio.run(growth.undo(view, source, ledger, feed.report, reason=condition.message))
    elif happened := after_step(view.state, Step.MACHINES, ok=False, bare=view.spec.bare):
        ledger.record(view.name, view.cluster_id, happened, step=Step.MACHINES)


def _ended_since(began: datetime, job: MachinesJob, ledger: Ledger) -> View | None:
    """The job's cluster, where something else has ended it since: what came up after that belongs to nothing (X1)."""
    view = ledger.latest(job.spec.name)
    if view is None or view.owner != job.owner or not view.over:
        return None
    return view if view.ended_at and view.ended_at >= began else None


def _refuse_ended(ended: View | None) -> None:
    if ended:
        raise StepFailed(f"{ended.name} was ended while its machines came up", "bring it up again")


def _to_end(job: MachinesJob, ledger: Ledger) -> View | None:
    """The cluster that the end of the job's resource ends.

    None where it was released before, since a repeated destroy is no error, or is another one's, and not ours to end.
    """
    view = ledger.current(job.spec.name)
    return view if view is not None and step.is_end_of(job, view) else None


def _release(job: MachinesJob, source: Provider, ledger: Ledger, feed: Feed) -> None:
    if view := _to_end(job, ledger):
        with ledger.keeping(feed.report):
            asyncio.run(step.release(view, source, ledger, feed.report))
        step.forget(view.name)


if __name__ == "__main__":
    steps.main(main)
