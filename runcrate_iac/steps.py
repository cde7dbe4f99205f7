"""What every step's process does around its work: the ledger's events, the news, signals and exit codes."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from pydantic import ValidationError

from runcrate_iac import notify
from runcrate_iac.errors import Refused, RuncrateError, StepFailed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.ledger.trouble import explained_os
from runcrate_iac.ledger.view import Note
from runcrate_iac.model.conditions import broken, sentence
from runcrate_iac.model.lifecycle import Happened, State, after_step, before_step
from runcrate_iac.model.progress import Mark, Outcome, Step
from runcrate_iac.model.spec import explain
from runcrate_iac.paths import state_dir

INTERRUPTED = 130


def main(work: Callable[[], None]) -> NoReturn:
    """Run ``work`` as a process: an error is its message on standard error and its exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        work()
    except (RuncrateError, OSError, ValidationError) as error:
        told = _told(error)
        sys.stderr.write(f"error: {told}\n")
        sys.exit(told.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    sys.exit(0)


def _told(error: RuncrateError | OSError | ValidationError) -> RuncrateError:
    """The error with its fact and remedy."""
    match error:
        case RuncrateError():
            return error
        case OSError():
            return explained_os(error)
        case ValidationError():
            facts = "; ".join(explain(error))
            return Refused(f"what the step was told can't be understood: {facts}", "upgrade runcrate-iac")


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise KeyboardInterrupt


def record(ledger: Ledger, cluster: str, step: Step, work: Callable[[], Outcome], feed: Feed) -> Outcome:
    """Do a step's work between its events in the ledger, and move the cluster's state by how it ended."""
    view = ledger.current(cluster)
    if view is None:
        raise StepFailed(f"{cluster} is not up: its machines were released", "bring it up again")
    if happened := before_step(view.state, step):
        ledger.record(cluster, view.cluster_id, happened, step=step)
    ledger.note(cluster, view.cluster_id, Note.STEP_STARTED, step=step)
    feed.tell(Mark.STARTED, "started")
    begun = time.monotonic()
    try:
        outcome = work()
    except BaseException as cause:
        _broken_off(ledger, cluster, step, cause)
        raise
    seconds = round(time.monotonic() - begun, 1)
    note_end(ledger, cluster, view.cluster_id, outcome, seconds)
    now = ledger.current(cluster) or view
    if happened := after_step(now.state, step, ok=outcome.ok, bare=view.spec.bare, growing=now.growth is not None):
        after = ledger.record(cluster, view.cluster_id, happened, step=step)
        if after.state is State.READY and after.spec.notify:
            error = notify.send(notify.message(after))
            ledger.note(cluster, view.cluster_id, Note.EMAILED, to=after.spec.notify, error=error)
    for condition in broken(outcome.conditions):
        feed.tell(Mark.FAILED, sentence(condition), condition.node)
    feed.tell(Mark.DONE if outcome.ok else Mark.FAILED, f"{'done' if outcome.ok else 'failed'} in {seconds} s")
    return outcome


def refuse_unknown(ledger: Ledger, cluster: str, *, resource: str, owner: str = "", cluster_id: str = "") -> None:
    """Raise :class:`Refused` where Pulumi has made what this state folder has never known, by its owner or its id.

    It runs elsewhere, or did; taken for nothing it would be left running, and taken for new it would be started anew.
    """
    entries = ledger.entries(cluster)
    owners = {entry.data["owner"] for entry in entries if "owner" in entry.data}
    if owner not in owners and all(entry.cluster_id != cluster_id for entry in entries):
        raise unknown(cluster, resource, owner, [(cluster, other) for other in sorted(owners)])


def unknown(what: str, resource: str, owner: str, others: Sequence[tuple[str, str]]) -> Refused:
    """The error for what was made with another state folder, and the way out where that is lost.

    ``others``: what this folder knows of that name, and the stack that it is of.
    """
    stacks = ", ".join(other for _, other in others)
    known = f" of this stack, only of {stacks}" if others else ""
    urn = shlex.quote(resource) if resource else "URN"
    ways = [
        "set RUNCRATE_IAC_HOME to the folder that it was made with",
        f"where that is lost, let Pulumi forget it: pulumi state delete --target-dependents {urn}",
        "its machines may run on: see `runcrate-iac gc`, and what their provider lists",
        *(moved(known_as, other, owner) for known_as, other in others),
    ]
    return Refused(
        f"{what} was made with another state folder: {state_dir()} does not know it{known}; nothing was done",
        "\n  ".join(filter(None, ways)),
    )


def moved(what: str, former: str, owner: str) -> str:
    """What to do where a stack is another one by its name only: it was renamed, or moved to another backend.

    Empty where neither the project nor the stack is called as before.
    """
    alike = set(former.split("/")[1:]) & set(owner.split("/")[1:])
    return f"where that is this stack under its former name: runcrate-iac moved {what} {owner}" if alike else ""


def _broken_off(ledger: Ledger, cluster: str, step: Step, cause: BaseException) -> None:
    """Note that what was being installed, or looked at after a fault, is not known to be well (C9)."""
    with suppress(RuncrateError, ValueError):  # a full disk, or another process was faster
        view = ledger.current(cluster)
        if view is not None and view.state is State.INSTALLING:
            reason = str(cause) or "interrupted"
            ledger.record(cluster, view.cluster_id, Happened.INSTALL_FAILED, step=step, reason=reason)


def note_end(ledger: Ledger, cluster: str, cluster_id: str, outcome: Outcome, seconds: float) -> None:
    """Put how a step ended into the ledger."""
    found = [condition.model_dump(mode="json") for condition in outcome.conditions]
    ended = {
        "step": outcome.step,
        "ok": outcome.ok,
        "changed": outcome.changed,
        "seconds": seconds,
        "busy": outcome.busy,
    }
    ledger.note(cluster, cluster_id, Note.STEP_ENDED, **ended, conditions=found)
