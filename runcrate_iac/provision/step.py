"""From a step's document to the worker's job, and its deadline."""

from __future__ import annotations

from collections.abc import Callable, Collection

from runcrate_iac.model import network
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.documents import StepInput
from runcrate_iac.model.progress import Event, Outcome, Step
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision import run, ssh
from runcrate_iac.provision.job import Job
from runcrate_iac.provision.membership import Membership
from runcrate_iac.provision.waits import TYPES

SECONDS = {Step.JOIN: 25 * 60.0, Step.STORAGE: 15 * 60.0, Step.SOFTWARE: 45 * 60.0, Step.CHECK: 10 * 60.0}
"""How long a step after the common moment may take; the first join has the cluster's own deadline (C8)."""
MARGIN = 120.0
"""Seconds for the nodes to be reached, and to end a set-up script that is out of time and tell of it."""


def seconds(step: Step, spec: ClusterSpec) -> float:
    """How long the step may take after the common moment; a set-up script has the limit that the user gave it (F40)."""
    return spec.setup_timeout + MARGIN if step is Step.SETUP else SECONDS[step]


def informed(document: StepInput, declared: ClusterSpec) -> StepInput:
    """A join's document with the software that the cluster will have.

    The join itself depends on Kubernetes only, so that it isn't run again for another software, and its document has no
    other one; but what a machine does for others already is refused by the software that would take it over.
    """
    return document.model_copy(
        update={"spec": document.spec.model_copy(update={"software": declared.software})},
    )


def perform(
    step: Step,
    document: StepInput,
    now: float,
    on_event: Callable[[Event], None],
    *,
    deadline: float | None = None,
    new: Collection[int] = (),
    given: bool = False,
    membership: Membership | None = None,
    dead: Callable[[], list[Condition]] = list,
) -> Outcome:
    """Run the step's deploys on all nodes and return how it ended; ``now`` in seconds since the epoch.

    ``deadline`` (seconds since the epoch): default what :data:`SECONDS` gives the step. ``new``: the nodes, by index,
    that are not part of the cluster yet. ``given``: the machines are the user's own, which have no lease but the one
    that their first join arms. ``membership``: the cluster as its machines know it, which a join asks them. ``dead`` is
    asked every few seconds which machines do not run any more, which ends the step; a check asks it once, and looks at
    the other machines.
    """
    try:
        plan = network.plan(document.made.machines)
    except ValueError as error:
        return Outcome(step=step, ok=False, conditions=(_equal_addresses(step, str(error)),))
    lost = dead() if step is Step.CHECK else []
    job = Job(
        step=step,
        cluster_id=document.made.cluster_id,
        spec=document.spec,
        plan=plan,
        ssh_config=ssh.write(document.spec.name, plan),
        deadline=deadline or now + seconds(step, document.spec),
        script=document.script,
        new=tuple(sorted(new)),
        membership=membership,
        arm=given and step is Step.JOIN and bool(new),
        absent=tuple(condition.node for condition in lost if condition.node),
    )
    if step is not Step.CHECK:
        return run.run(job, on_event, dead)
    if len(job.absent) == len(plan.nodes):
        return Outcome(step=step, ok=False, conditions=tuple(lost))
    outcome = run.run(job, on_event)
    found = (*lost, *outcome.conditions)
    return outcome.model_copy(update={"ok": outcome.ok and not lost, "conditions": found})


def _equal_addresses(step: Step, fact: str) -> Condition:
    return Condition(
        type=TYPES[step],
        status=Status.FALSE,
        reason="EqualAddresses",
        message=fact,
        remedy="give each machine an address of its own; where a provider made them, look at what it lists",
    )
