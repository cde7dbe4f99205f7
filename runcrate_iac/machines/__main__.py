"""The machines step as a process: ``python -m runcrate_iac.machines reserve|release < document``."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress

from runcrate_iac import steps
from runcrate_iac.errors import Refused, SpecError, StateUnwritable
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.ledger.view import View
from runcrate_iac.machines import growth, step
from runcrate_iac.machines.provider import Provider
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model import faults
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.documents import MachinesJob
from runcrate_iac.model.lifecycle import State, after_step
from runcrate_iac.model.progress import Mark, Outcome, Step


def main() -> None:
    """Reserve or release."""
    verb = sys.argv[1] if len(sys.argv) == 2 else ""  # noqa: PLR2004
    if verb not in ("reserve", "release"):
        raise SpecError("usage: python -m runcrate_iac.machines reserve|release < document")
    job = MachinesJob.model_validate_json(sys.stdin.read())
    source = provider_of(job.spec, job.given)
    _reserve(job, source) if verb == "reserve" else _release(job, source)


def _reserve(job: MachinesJob, source: Provider) -> None:
    ledger, feed, begun = Ledger(), Feed(job.spec.name, Step.MACHINES), time.monotonic()
    feed.tell(Mark.STARTED, f"reserving {job.spec.nodes} machines")
    if job.spec.faults:
        feed.report(faults.told(job.spec.faults), None)
    try:
        step.prepare(job, source, ledger, feed.report)
        made = asyncio.run(step.reserve(job, source, ledger, feed.report))
    except BaseException as error:
        feed.tell(Mark.FAILED, str(error) or type(error).__name__, getattr(error, "node", None))
        if (view := ledger.current(job.spec.name)) and view.owner == job.owner and not _untouched(view, error):
            with suppress(StateUnwritable), ledger.keeping(feed.report):  # a full disk keeps no machine alive
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


def _release(job: MachinesJob, source: Provider) -> None:
    ledger = Ledger()
    view = ledger.current(job.spec.name)
    if view is None or not step.is_end_of(job, view):
        return  # released before: a repeated destroy is no error; or another one's, which is not ours to end
    report = Feed(job.spec.name, Step.MACHINES).report
    with ledger.keeping(report):
        asyncio.run(step.release(view, source, ledger, report))
    step.forget(view.name)


if __name__ == "__main__":
    steps.main(main)
