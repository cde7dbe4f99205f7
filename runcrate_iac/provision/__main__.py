"""A step on the nodes as a process: ``python -m runcrate_iac.provision STEP < document``."""

from __future__ import annotations

import sys
import time

from runcrate_iac import steps
from runcrate_iac.errors import Degraded, SpecError, StepFailed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.model.conditions import broken, sentence
from runcrate_iac.model.documents import StepInput
from runcrate_iac.model.progress import RELEASES, Outcome, Step
from runcrate_iac.provision.step import perform


def main() -> None:
    """Do the step and say how it ended: 3 everything has to be released, 4 the cluster is degraded."""
    wanted = [step for step in Step if sys.argv[1:] == [step] and step is not Step.MACHINES]
    if not wanted:
        names = "|".join(step for step in Step if step is not Step.MACHINES)
        raise SpecError(f"usage: python -m runcrate_iac.provision {names} < document")
    document = StepInput.model_validate_json(sys.stdin.read())
    outcome = _recorded(wanted[0], document)
    if not outcome.ok:
        facts = "\n".join(sentence(condition) for condition in broken(outcome.conditions))
        raise (StepFailed if outcome.step in RELEASES else Degraded)(f"{outcome.step} failed:\n{facts}")
    sys.stdout.write(Outcome(step=outcome.step, ok=True).model_dump_json() + "\n")


def _recorded(step: Step, document: StepInput) -> Outcome:
    feed, ledger = Feed(document.spec.name, step), Ledger()
    view = ledger.current(document.spec.name)
    joined = view is not None and view.joined_at is not None
    work = lambda: perform(step, document, time.time(), feed.emit, joined=joined)  # noqa: E731
    return steps.record(ledger, document.spec.name, step, work, feed)


if __name__ == "__main__":
    steps.main(main)
