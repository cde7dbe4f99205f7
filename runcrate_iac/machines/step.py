"""The machines step: reserve all or take note of what is there; release all and prove it (C4, C7, X1)."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from runcrate_iac.errors import Leftover, Refused, SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines import fleet
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.keypair import cluster_key
from runcrate_iac.machines.provider import HasPreparation, Provider, Reservation
from runcrate_iac.model.documents import MachinesJob, Made
from runcrate_iac.model.lifecycle import TABLE, Happened, State
from runcrate_iac.model.network import Machine, node_name, plan
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.notify import refuse_unsendable
from runcrate_iac.paths import cluster_dir, private_dir


async def reserve(job: MachinesJob, provider: Provider, ledger: Ledger, report: Report) -> Made:
    """Reserve every machine at once, the intent in the ledger first; a second call adopts what is there.

    Raises :class:`SpecError` (no such machines), :class:`Refused` (the name is another stack's, or its
    machines would have to change), :class:`~runcrate_iac.errors.StepFailed` (a machine did not come up).
    """
    spec = job.spec
    refuse_unsendable(spec)
    view = ledger.current(spec.name)
    if view is None:
        chosen = _checked(job, provider)
        if isinstance(provider, HasPreparation):
            provider.prepare(spec.machine, report)
        view = _intend(job, chosen, ledger)
    else:
        refuse_change(view, spec, job.owner)
        if view.spec != spec:
            ledger.note(spec.name, view.cluster_id, Note.SPEC_CHANGED, spec=spec.model_dump(mode="json"))
    made = await _bring_up(view, spec, provider, ledger, report)
    return Made(cluster_id=view.cluster_id, deadline=view.deadline, price_per_hour=view.price_per_hour, machines=made)


async def _bring_up(
    view: View, spec: ClusterSpec, provider: Provider, ledger: Ledger, report: Report
) -> tuple[Machine, ...]:
    name, cluster_id = spec.name, view.cluster_id
    now = ledger.now()
    # A machine that was lost after the common moment starts again: that has its time anew.
    until = view.deadline if view.joined_at is None else now + timedelta(seconds=view.join_seconds)
    request = request_for(spec, cluster_id, until.timestamp())
    ledger.note(name, cluster_id, Note.ASKED, nodes=spec.nodes)
    known = set(view.made)

    def note(machine: Machine) -> None:
        if machine.id not in known:
            known.add(machine.id)
            ledger.note(name, cluster_id, Note.MACHINE_MADE, machine=machine.id, node=node_name(machine.index))

    machines = await fleet.bring_up(request, provider, (until - now).total_seconds(), note, report)
    if machines != view.machines:
        up = [machine.model_dump(mode="json") for machine in machines]
        ledger.note(name, cluster_id, Note.MACHINES, machines=up)
    return machines


def request_for(spec: ClusterSpec, cluster_id: str, deadline: float) -> Reservation:
    """The order for these machines, with the key of the cluster or pool of that name; ``deadline`` in epoch seconds."""
    identity = cluster_key(spec.name)
    return Reservation(
        cluster_id=cluster_id,
        nodes=spec.nodes,
        machine=spec.machine,
        authorized_keys=(identity.with_suffix(".pub").read_text().strip(),),
        identity_file=identity,
        deadline=deadline,
    )


def refuse_change(view: View, spec: ClusterSpec, owner: str) -> None:
    """Raise :class:`Refused` where this spec can't be applied to the living cluster of its name."""
    if view.owner != owner:
        raise Refused(
            f"{view.name} is up already, by the stack {view.owner} since {view.reserved_at:%Y-%m-%d %H:%M} UTC",
            "take another name, or end that one first",
        )
    if view.over or (view.state, Happened.TERMINATE_ASKED) not in TABLE:
        raise Refused(f"{view.name} is {view.state} and not all released", f"runcrate-iac down {view.name}")
    changes = [
        f"{field}: {before} is running, {after} is asked"
        for field, before, after in (
            ("nodes", view.spec.nodes, spec.nodes),
            ("provider", view.spec.provider, spec.provider),
            *(
                (f"machine.{field}", getattr(view.spec.machine, field), getattr(spec.machine, field))
                for field in type(spec.machine).model_fields
            ),
        )
        if before != after
    ]
    if changes:
        raise Refused(
            f"{view.name} is up already with another spec; this would change:\n  " + "\n  ".join(changes),
            "machines of a running cluster stay as they are: end it first, or take another name",
        )


def offer(spec: ClusterSpec, provider: Provider) -> Offer:
    """The provider's first offer for these machines.

    Raises :class:`SpecError` where it has none now, or can never have one.
    """
    offers = provider.offers(spec.machine, spec.nodes)
    if not offers:
        shape = f"{spec.nodes} machines with {spec.machine.gpus} {spec.machine.gpu} each"
        raise SpecError(f"{provider.name} has no offer for {shape} now", "ask for fewer, or try later")
    return offers[0]


def _checked(job: MachinesJob, provider: Provider) -> Offer:
    try:
        plan(job.given)
    except ValueError as error:
        raise SpecError(f"machines: {error}", "give each machine an address of its own") from None
    return offer(job.spec, provider)


def _intend(job: MachinesJob, chosen: Offer, ledger: Ledger) -> View:
    spec = job.spec
    seconds = spec.join_timeout or chosen.join_seconds
    facts = {
        "owner": job.owner,
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
    await _keep_consoles(view, provider)
    seen, left = await fleet.release(cluster_id, provider, report, unanswered=bool(view.unanswered))
    if provider.name != GivenProvider.name:  # those stay: their own resources end them
        nodes = view.made | {machine.id: node_name(machine.index) for machine in seen.values()}
        proof = f"{provider.name} was asked after the release and does not list it"
        for key in sorted(nodes.keys() - {machine.id for machine in left} - set(view.gone)):
            ledger.note(name, cluster_id, Note.MACHINE_GONE, machine=key, node=nodes[key], proof=proof)
    if left:
        raise Leftover(f"{name}: the provider still lists {fleet.listed(left)}", f"runcrate-iac down {name}")
    after = ledger.record(name, cluster_id, Happened.RELEASED)
    report(told(after), None)
    return after


def told(view: View) -> str:
    """What the release of a cluster came to, in a sentence."""
    bill = "no longer billed" if view.joined_at else "nothing is billed"
    return f"released {len(view.gone)} of {len(view.made)} machines, {bill}"


async def _keep_consoles(view: View, provider: Provider) -> None:
    """Copy what the machines wrote on their consoles into the cluster's logs, before it goes with them."""
    with suppress(Exception):  # a full disk or a silent provider must not keep machines alive
        logs = private_dir(cluster_dir(view.name) / "logs")
        for machine in await fleet.within(provider.list(view.cluster_id)):
            if machine.log and (console := Path(machine.log)).exists():
                shutil.copyfile(console, logs / f"{node_name(machine.index)}.console.log")


def forget(cluster: str) -> None:
    """Remove the files that let this computer reach the cluster: its key and its ssh configuration."""
    for name in ("id_ed25519", "id_ed25519.pub", "ssh_config", "known_hosts"):
        (cluster_dir(cluster) / name).unlink(missing_ok=True)
