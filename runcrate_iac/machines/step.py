"""The machines step: reserve all or take note of what is there; release all and prove it (C4, C7, X1)."""

from __future__ import annotations

import secrets
from datetime import timedelta

from runcrate_iac import steps
from runcrate_iac.artifacts.store import refuse_unusable
from runcrate_iac.errors import Refused, SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines import fleet, gone, growth, identity, replace
from runcrate_iac.machines.given import GivenProvider, refuse_misplaced
from runcrate_iac.machines.keypair import cluster_key
from runcrate_iac.machines.provider import HasPreparation, Provider, Reservation
from runcrate_iac.model import growth as rules
from runcrate_iac.model.artifacts import preload
from runcrate_iac.model.documents import MachinesJob, Made
from runcrate_iac.model.lifecycle import TABLE, Happened, State
from runcrate_iac.model.network import Machine, plan
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.notify import refuse_unsendable
from runcrate_iac.paths import cluster_dir


def prepare(job: MachinesJob, provider: Provider, ledger: Ledger, report: Report) -> None:
    """Build or fetch what the machines start from, which may take minutes; nothing is reserved.

    Raises as :func:`reserve` does for what can be seen before.
    """
    view = ledger.current(job.spec.name)
    identity.refuse_unusable(job.given)
    if view is None:
        refuse_unsendable(job.spec)
        refuse_unusable(job.spec)
        _checked(job, provider, ledger)
    else:
        refuse_change(view, job.spec, job.owner)
    if isinstance(provider, HasPreparation):
        provider.prepare(job.spec.machine, preload(job.spec), report)


async def reserve(job: MachinesJob, provider: Provider, ledger: Ledger, report: Report) -> Made:
    """Reserve every machine at once, the intent in the ledger first; a second call adopts what is there.

    Where a killed one left machines that have not joined by their deadline, they are released before.

    Raises :class:`SpecError` (no such machines), :class:`Refused` (the name is another stack's, or its
    machines would have to change), :class:`~runcrate_iac.errors.StepFailed` (a machine did not come up).
    """
    spec = job.spec
    refuse_unsendable(spec)
    refuse_unusable(spec)
    refuse_misplaced(spec.name, job.given, ledger)
    view = ledger.current(spec.name)
    if view is not None:
        refuse_change(view, spec, job.owner)
        if view.missed(ledger.now()):
            await give_up(view, provider, ledger, report, reason=too_late(view))
            forget(view.name)
            view = None
    if view is None:
        chosen = _checked(job, provider, ledger)
        view = _intend(job, chosen, ledger)
    else:
        if reason := growth.abandoned(view, spec, ledger.now()):  # plain Pulumi was killed
            view = await growth.undo(view, provider, ledger, report, reason=reason)
        if spec.nodes > view.spec.nodes:
            view = growth.begin(view, spec, provider, ledger)
    lost = await replace.find(view, provider, ledger, report)
    replace.refuse_growth(view, lost)
    view = await replace.clear(view, lost, provider, ledger, report)
    if view.growth is None and view.spec != spec:
        view = _declare(view, spec, ledger)
    await _bring_up(view, spec, provider, ledger, report)
    refuse_misplaced(spec.name, job.given, ledger)  # by a step that ran at the same time
    if job.resource not in ("", view.resource):
        ledger.note(view.name, view.cluster_id, Note.TAKEN_OVER, resource=job.resource)
    return made(ledger.latest(spec.name) or view)


def made(view: View) -> Made:
    """The machines of the cluster as the next steps need to know them, those that are being added among them."""
    added = view.growth.machines if view.growth else ()
    price = view.price_per_hour
    if view.growth:
        price = price.plus(view.growth.price_per_machine.times(len(added)))
    return Made(
        cluster_id=view.cluster_id,
        resource=view.resource,
        deadline=view.growth.deadline if view.growth else view.deadline,
        price_per_hour=price,
        machines=view.all_machines,
    )


def _declare(view: View, spec: ClusterSpec, ledger: Ledger) -> View:
    """Note what is declared now; until what has to be installed for it is there, the cluster is not ready (C6)."""
    ledger.note(view.name, view.cluster_id, Note.SPEC_CHANGED, spec=spec.model_dump(mode="json"))
    asked = (spec.software, spec.setup) != (view.spec.software, view.spec.setup)
    if asked and not spec.bare and view.state is State.READY:
        return ledger.record(view.name, view.cluster_id, Happened.INSTALL_RETRIED)
    return ledger.latest(view.name) or view


async def _bring_up(view: View, spec: ClusterSpec, provider: Provider, ledger: Ledger, report: Report) -> None:
    name, cluster_id = spec.name, view.cluster_id
    now = ledger.now()
    # A machine that was lost after the common moment starts again: that has its time anew.
    until = view.deadline if view.joined_at is None else now + timedelta(seconds=view.join_seconds)
    have: tuple[Machine, ...] = ()
    if view.growth:
        until = view.growth.deadline
        if provider.name != GivenProvider.name:  # given machines are as the program says now, the old ones too
            have = view.machines
    request = request_for(spec, cluster_id, until.timestamp())
    ledger.note(name, cluster_id, Note.ASKED, nodes=spec.nodes)
    seconds, known = (until - now).total_seconds(), gone.noting(view, ledger)
    young = gone.hidden(view, provider, now)
    machines = await fleet.bring_up(request, provider, seconds, known, report, hidden=young, have=have)
    up = [machine.model_dump(mode="json") for machine in machines]
    ledger.note(name, cluster_id, Note.MACHINES, machines=up)
    gone.note_gone(view, provider, ledger, but=machines)


def request_for(spec: ClusterSpec, cluster_id: str, deadline: float) -> Reservation:
    """The order for these machines, with the key of the cluster or pool of that name; ``deadline`` in epoch seconds."""
    key = cluster_key(spec.name)
    return Reservation(
        cluster_id=cluster_id,
        nodes=spec.nodes,
        machine=spec.machine,
        preload=preload(spec),
        authorized_keys=(key.with_suffix(".pub").read_text().strip(),),
        identity_file=key,
        deadline=deadline,
    )


def refuse_change(view: View, spec: ClusterSpec, owner: str) -> None:
    """Raise :class:`Refused` where this spec can't be applied to the living cluster of its name."""
    if view.owner != owner:
        moved = steps.moved(view.name, view.owner, owner)
        raise Refused(
            f"{view.name} is up already, by the stack {view.owner} since {view.reserved_at:%Y-%m-%d %H:%M} UTC",
            "\n  ".join(filter(None, ["take another name, or end that one first", moved])),
        )
    if view.over or (view.state, Happened.TERMINATE_ASKED) not in TABLE:
        raise Refused(f"{view.name} is {view.state} and not all released", f"runcrate-iac down {view.name}")
    if changes := rules.refusals(view.spec, spec, view.state):
        raise Refused(
            f"{view.name} is up already with another spec; this would change:\n  " + "\n  ".join(changes),
            f"take another name, or end that one first: runcrate-iac down {view.name}",
        )


def refuse_rename(job: MachinesJob, ledger: Ledger) -> None:
    """Raise :class:`Refused` where the job's resource has a living cluster of another name.

    Pulumi would update that resource in place: its end would be that of the new cluster, and nothing ended the old one.
    """
    wanted = (job.owner, job.resource)
    names = {entry.cluster for entry in ledger.entries() if entry.data.get("resource") == job.resource}
    for name in sorted(names - {job.spec.name}) if job.resource else ():
        view = ledger.current(name)
        if view is not None and (view.owner, view.resource) == wanted:
            raise Refused(
                f"{name} is {view.state}, and a cluster's name can't become another one: {job.spec.name} is asked",
                f"keep `cluster_name: {name}`, end it by `pulumi destroy`, or declare a resource of another name",
            )


def is_end_of(job: MachinesJob, view: View) -> bool:
    """Whether the end of the job's resource is the end of this cluster: it is still that resource's.

    Pulumi makes a renamed resource first, which takes the cluster over, and then ends the old one.
    """
    return job.owner in (view.owner, *view.former_owners) and view.is_of(job.resource)


def _checked(job: MachinesJob, provider: Provider, ledger: Ledger) -> Offer:
    refuse_rename(job, ledger)
    try:
        plan(job.given)
    except ValueError as error:
        raise SpecError(f"machines: {error}", "give each machine an address of its own") from None
    return growth.offer(job.spec, job.spec.nodes, provider)


def _intend(job: MachinesJob, chosen: Offer, ledger: Ledger) -> View:
    spec = job.spec
    seconds = spec.join_timeout or chosen.join_seconds
    facts = {
        "owner": job.owner,
        "resource": job.resource,
        "spec": spec.model_dump(mode="json"),
        "deadline": (ledger.now() + timedelta(seconds=seconds)).isoformat(),
        "price_per_hour": str(chosen.price.usd),
    }
    for log in (cluster_dir(spec.name) / "logs").glob("node-*.log"):
        log.unlink()  # of an earlier cluster of that name
    try:
        return ledger.record(spec.name, f"{spec.name}-{secrets.token_hex(4)}", Happened.RESERVED, **facts)
    except ValueError as error:  # another process was faster
        raise Refused(f"{spec.name} was reserved just now: {error}", "take another name, or end that one") from None


def too_late(view: View) -> str:
    """Why a cluster that missed its deadline is given up by a later command."""
    return f"not joined by {view.deadline:%Y-%m-%d %H:%M} UTC, and what brought it up was ended"


async def give_up(view: View, provider: Provider, ledger: Ledger, report: Report, *, reason: str) -> View:
    """End a cluster that could not start: failed, and every machine released (C8)."""
    if view.state is State.PROVISIONING:
        view = ledger.record(view.name, view.cluster_id, Happened.START_FAILED, reason=reason)
    return view if view.over else await release(view, provider, ledger, report)


async def release(view: View, provider: Provider, ledger: Ledger, report: Report) -> View:
    """Release every machine of this cluster and ask the provider until it lists none (X1).

    Raises :class:`Leftover` with the list where that can't be proved in time; it can be called again.
    """
    name, cluster_id = view.name, view.cluster_id
    if (view.state, Happened.TERMINATE_ASKED) in TABLE:
        view = ledger.record(name, cluster_id, Happened.TERMINATE_ASKED)
    await gone.end(view, provider, ledger, report)
    after = ledger.record(name, cluster_id, Happened.RELEASED)
    report(told(after), None)
    return after


def told(view: View) -> str:
    """What the release of a cluster came to, in a sentence."""
    if view.spec.provider == GivenProvider.name:
        return "the machines stay with the program that made them, nothing is billed here"
    bill = "no longer billed" if view.joined_at else "nothing is billed"
    return f"released {len(view.gone)} of {len(view.made)} machines, {bill}"


def forget(cluster: str) -> None:
    """Remove the files that let this computer reach the cluster: its key and its ssh configuration."""
    for name in ("id_ed25519", "id_ed25519.pub", "ssh_config", "known_hosts"):
        (cluster_dir(cluster) / name).unlink(missing_ok=True)
