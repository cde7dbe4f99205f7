"""The end of a growth: the machines that have joined are part of the cluster, or they go and it is what it was (C8)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from runcrate_iac import steps
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.ledger.view import Entry, Note, View
from runcrate_iac.machines import growth
from runcrate_iac.machines import step as machines
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model.documents import StepInput
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.progress import Outcome, Step
from runcrate_iac.provision.alive import looker
from runcrate_iac.provision.leave import leave
from runcrate_iac.provision.membership import Membership
from runcrate_iac.provision.step import perform

PART_SECONDS = 120.0
"""How long the old nodes may take to join among themselves again."""


def newcomers(view: View, joining: Collection[Machine]) -> frozenset[int]:
    """Which of the machines are not part of the cluster yet, by index: all where it never joined."""
    return frozenset(machine.index for machine in joining if machine.id not in view.joined)


def membership(view: View, ledger: Ledger) -> Membership:
    """The cluster as its machines may know it."""
    entries = ledger.entries(view.name)
    ids = {entry.cluster_id for entry in entries}
    own = view.joined_at is not None and view.spec.provider == GivenProvider.name
    return Membership(
        cluster_id=view.cluster_id,
        ended=tuple(sorted(ids - {view.cluster_id})),
        settled=view.spec.nodes if own else 0,
        former=_former(view, entries) if own else {},
    )


def _former(view: View, entries: Sequence[Entry]) -> dict[int, str]:
    """The last address of each node that is given no more."""
    noted = [entry for entry in entries if entry.type == Note.MACHINES and entry.cluster_id == view.cluster_id]
    given = {machine.id for machine in view.all_machines}
    return {
        machine["index"]: machine["host"]
        for entry in noted
        for machine in entry.data["machines"]
        if machine["id"] in view.joined and machine["id"] not in given
    }


def note_joined(ledger: Ledger, cluster: str, joining: Collection[Machine]) -> None:
    """After a join of a cluster that was up: its new machines are part of it, and billed, from this moment (C11).

    It is ready again when they have all that the others have (C6).
    """
    view = ledger.current(cluster)
    if view is None or view.joined_at is None:
        return
    new = newcomers(view, joining)
    rates = view.rates
    if view.growth:
        rates = {node_name(index): view.growth.price_per_machine.usd for index in new} | rates
    events = [
        (Note.NODE_JOINED, {"node": node, "machine": machine.id, "price_per_hour": rates[node]})
        for machine in joining
        if machine.index in new
        for node in [node_name(machine.index)]
    ]
    if view.growth:
        events.append((Note.GROWN, {}))
    if not events:
        return
    ledger.notes(cluster, view.cluster_id, *events)
    if not view.declared.bare and view.state is State.READY:
        ledger.record(cluster, view.cluster_id, Happened.INSTALL_RETRIED)


def take_back(view: View, ledger: Ledger, feed: Feed, *, reason: str, touched: bool) -> View:
    """Undo a growth; the cluster is as it was before, or it is degraded where its own nodes have a fault by now.

    ``touched``: the nodes may know of the new machines, and are joined among themselves again. Raises
    :class:`~runcrate_iac.errors.Leftover` where a machine can't be proved gone.
    """
    name, provider = view.name, provider_of(view.declared)
    if provider.name == GivenProvider.name and touched and view.growth and view.growth.machines:
        leave(name, view.cluster_id, view.all_machines, feed.report, first=view.spec.nodes)
    after = asyncio.run(growth.undo(view, provider, ledger, feed.report, reason=reason))
    if not touched:
        return after
    document, dead = StepInput(spec=after.spec, made=machines.made(after)), looker(Step.JOIN, after, feed.report)

    def join() -> Outcome:
        now = time.time()
        member = membership(after, ledger)
        return perform(Step.JOIN, document, now, feed.emit, deadline=now + PART_SECONDS, membership=member, dead=dead)

    steps.record(ledger, name, Step.JOIN, join, Feed(name, Step.JOIN))
    return ledger.latest(name) or after
