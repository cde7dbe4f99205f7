"""A step on the nodes as a process: ``python -m runcrate_iac.provision STEP|leave < document``."""

from __future__ import annotations

import asyncio
import sys
import time

from runcrate_iac import steps
from runcrate_iac.errors import Degraded, SpecError, StepFailed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.lock import STEP_WAITS, at_work
from runcrate_iac.machines import step as machines
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.growth import told
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model.conditions import broken, sentences
from runcrate_iac.model.documents import StepInput
from runcrate_iac.model.lifecycle import State
from runcrate_iac.model.progress import RELEASES, Outcome, Step
from runcrate_iac.provision import growth, journals
from runcrate_iac.provision.alive import looker
from runcrate_iac.provision.leave import leave
from runcrate_iac.provision.step import informed, perform

LEAVE = "leave"


def main() -> None:
    """Do the step and say how it ended: 3 everything has to be released, 4 the cluster is degraded.

    ``leave`` is the join's undoing, on machines that stay with the user.
    """
    if sys.argv[1:] == [LEAVE]:
        _leave(StepInput.model_validate_json(sys.stdin.read()))
        return
    wanted = [step for step in Step if sys.argv[1:] == [step] and step is not Step.MACHINES]
    if not wanted:
        names = "|".join([*(step for step in Step if step is not Step.MACHINES), LEAVE])
        raise SpecError(f"usage: python -m runcrate_iac.provision {names} < document")
    document = StepInput.model_validate_json(sys.stdin.read())
    name, made = document.spec.name, document.made
    steps.refuse_unknown(Ledger(), name, resource=made.resource, cluster_id=made.cluster_id)
    with at_work(name, wanted[0], Feed(name, wanted[0]).report, STEP_WAITS):
        _do(wanted[0], document)


def _do(step: Step, document: StepInput) -> None:
    try:
        outcome = _recorded(step, document)
    except KeyboardInterrupt:
        if step in RELEASES:
            _give_up(document.spec.name, [], "interrupted", reached=True)
        raise
    if not outcome.ok:
        wrong = broken(outcome.conditions)
        facts = sentences(wrong)
        if outcome.step in RELEASES:
            nodes = dict.fromkeys(condition.node for condition in wrong if condition.node)
            facts += _give_up(document.spec.name, list(nodes), facts, reached=outcome.reached)
            raise StepFailed(f"{outcome.step} failed:\n{facts}", "nothing starts again by itself: bring it up again")
        raise Degraded(f"{outcome.step} failed:\n{facts}")
    sys.stdout.write(Outcome(step=outcome.step, ok=True).model_dump_json() + "\n")


def _recorded(step: Step, document: StepInput) -> Outcome:
    feed, ledger = Feed(document.spec.name, step), Ledger()
    view = ledger.current(document.spec.name)
    if view and step is Step.JOIN:
        document = informed(document, view.spec)
    # Up to the common moment, and while workers are added, the machines have a deadline of their own (C8).
    starting = view is None or view.joined_at is None or view.growth is not None
    deadline = document.made.deadline.timestamp() if starting else None
    new = growth.newcomers(view, document.made.machines) if view else ()
    dead = looker(step, view, feed.report) if view else list
    given = view is not None and view.spec.provider == GivenProvider.name
    member = growth.membership(view, ledger) if view else None

    def work() -> Outcome:
        now = time.time()
        return perform(
            step, document, now, feed.emit, deadline=deadline, new=new, given=given, membership=member, dead=dead
        )

    outcome = steps.record(ledger, document.spec.name, step, work, feed)
    if outcome.ok and step is Step.JOIN:
        growth.note_joined(ledger, document.spec.name, document.made.machines)
    return outcome


def _give_up(cluster: str, nodes: list[str], reason: str, *, reached: bool) -> str:
    """Release what has not joined, all or the workers that are added, after its logs were fetched; what to tell of it.

    ``reached``: something may have been changed on the nodes. It is done here and not left to a rollback, so that plain
    `pulumi up` keeps the promise too (C8).
    """
    ledger = Ledger()
    view = ledger.current(cluster)
    if view is None or (view.state is not State.PROVISIONING and view.growth is None):
        return ""
    journals.fetch(cluster, nodes)
    feed = Feed(cluster, Step.MACHINES)
    if view.growth:
        after = growth.take_back(view, ledger, feed, reason=reason, touched=reached)
        return "\n".join(["", *_tails(cluster, nodes), told(after)])
    if view.spec.provider == GivenProvider.name:
        leave(cluster, view.cluster_id, view.machines, feed.report)
    after = asyncio.run(machines.give_up(view, provider_of(view.spec), ledger, feed.report, reason=reason))
    machines.forget(cluster)
    return "\n".join(["", *_tails(cluster, nodes), machines.told(after)])


def _tails(cluster: str, nodes: list[str]) -> list[str]:
    return [words for node in nodes if (words := journals.tail(cluster, node))]


def _leave(document: StepInput) -> None:
    name, made, ledger = document.spec.name, document.made, Ledger()
    steps.refuse_unknown(ledger, name, resource=made.resource, cluster_id=made.cluster_id)
    if not _is_in(ledger, document):
        return
    report = Feed(name, Step.JOIN).report
    with at_work(name, LEAVE, report, STEP_WAITS):
        if _is_in(ledger, document):
            leave(name, made.cluster_id, made.machines, report)


def _is_in(ledger: Ledger, document: StepInput) -> bool:
    """Whether the machines are to leave with the document's resource.

    Else the cluster has ended already, or is another resource's of the program by now, such as one that was renamed.
    """
    view, made = ledger.current(document.spec.name), document.made
    return view is not None and view.cluster_id == made.cluster_id and view.is_of(made.resource)


if __name__ == "__main__":
    steps.main(main)
