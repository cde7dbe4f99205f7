"""What the events say: the pure fold from entries to the cluster as it is now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from pydantic import Field, ValidationError

from runcrate_iac.errors import Refused
from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition
from runcrate_iac.model.growth import Growth
from runcrate_iac.model.lifecycle import ENDED, Happened, State, advance, start
from runcrate_iac.model.money import FREE, Money
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.progress import RELEASES, Step
from runcrate_iac.model.repair import first_to_repeat
from runcrate_iac.model.spec import ClusterSpec


class Note(StrEnum):
    """Events that leave the state as it is."""

    ASKED = "machines_asked"
    """The provider is being asked for machines (X1: before it is asked)."""
    MACHINE_MADE = "machine_made"
    """The provider told of a machine, or lists it: ``machine``, its id there, and ``node``."""
    MACHINES = "machines_up"
    """What the provider made: ``machines``."""
    STEP_STARTED = "step_started"
    STEP_ENDED = "step_ended"
    """``step``, ``ok``, ``changed``, ``seconds``, ``conditions``, and ``busy``: seconds of each node's own commands."""
    MACHINE_LOST = "machine_lost"
    """A machine of a degraded cluster does not run: ``nodes``."""
    MACHINE_GONE = "machine_gone"
    """``machine``, its ``node`` and the ``proof``: the provider was asked after the release (X1)."""
    EMAILED = "emailed"
    """The email that the cluster is ready (C6): ``to``, and ``error`` where it was not taken."""
    UNDO_STARTED = "undo_started"
    """A part of what `up` made is being undone: ``part``."""
    UNDO_ENDED = "undo_ended"
    """``part``, and ``error``, empty where it is undone."""
    GROWTH_STARTED = "growth_started"
    """Workers are being added: ``spec`` as it will be, ``deadline``, and ``price_per_machine`` of each (C11)."""
    NODE_JOINED = "node_joined"
    """A machine became part of a cluster that was up: ``node``, ``machine``, ``price_per_hour``; it is billed (C11)."""
    GROWN = "grown"
    """All workers that were being added have joined."""
    GROWTH_UNDONE = "growth_undone"
    """The workers that were being added are released; the cluster is what it was. ``reason``."""
    HEAD_GIVEN_UP = "head_given_up"
    """The head's machine is gone for good, and the user goes on without what was on it; ``reason`` says what."""
    SPEC_CHANGED = "spec_changed"
    """The declared spec of a running cluster, where a change is allowed."""
    TAKEN_OVER = "taken_over"
    """``resource``: the cluster is another resource's of its stack now, such as one that was renamed in the program.

    ``owner``, where its stack was renamed, or moved to another backend: that stack's name now."""
    SALVAGED = "salvaged"
    """The ledger's file was damaged, and events of this cluster may be missing; ``kept`` is the damaged file."""


class Entry(Model):
    """One event of the ledger."""

    seq: int
    at: datetime
    cluster: str
    cluster_id: str
    type: str
    data: dict[str, Any]


class View(Model):
    """One incarnation of a cluster as its events tell it."""

    name: str
    cluster_id: str
    owner: str
    """The Pulumi stack it belongs to: ``organization/project/stack``."""
    former_owners: tuple[str, ...] = ()
    """What that stack was called before; Pulumi's own documents of the cluster say so until they are written anew."""
    resource: str = ""
    """The URN of its resource there."""
    spec: ClusterSpec
    state: State
    since: datetime
    """When it took that state."""
    reserved_at: datetime
    deadline: datetime
    """When it must have joined (C8)."""
    joined_at: datetime | None = None
    """The common moment from which every machine is billed (C5, C11)."""
    ended_at: datetime | None = None
    price_per_hour: Money = FREE
    """USD per hour of the whole cluster."""
    rates: dict[str, Decimal] = Field(default_factory=dict)
    """USD per hour of each node's machine, by the node's name."""
    joined: dict[str, datetime] = Field(default_factory=dict)
    """The moment from which each machine is billed, by its id (C11); none of a machine that is gone."""
    growth: Growth | None = None
    """The workers that are being added now."""
    head_given_up: bool = False
    """The user goes on without what was on the head's disk, which is lost."""
    machines: tuple[Machine, ...] = ()
    """Those of the cluster's nodes."""
    made: dict[str, str] = Field(default_factory=dict)
    """The node of every machine that the provider told of, by the machine's id."""
    asked: bool = False
    """The provider was asked for machines."""
    up_at: datetime | None = None
    """When the provider's last orders had ended with all machines up; None where one may have had no answer."""
    gone: tuple[str, ...] = ()
    """Ids of machines that are proved gone."""
    losses: int = 0
    """How often a node or its machine was found lost after the common moment, or a growth was undone."""
    repeats: dict[Step, int] = Field(default_factory=dict)
    """How often what a step found after the common moment made that step, and those after it, necessary again."""
    released: bool = False
    """The provider was asked and nothing is left."""
    findings: dict[Step, tuple[Condition, ...]] = Field(default_factory=dict)
    """What each step found when it last ran."""

    @property
    def conditions(self) -> list[Condition]:
        """The findings of all steps, in the steps' order."""
        return [condition for step in Step for condition in self.findings.get(step, ())]

    @property
    def unanswered(self) -> list[str]:
        """Nodes whose machine was asked for without an answer that tells its id."""
        nodes = [node_name(index) for index in range(self.declared.nodes)] if self.asked else []
        return [node for node in nodes if node not in self.made.values()]

    @property
    def declared(self) -> ClusterSpec:
        """The spec, as it will be once the workers that are being added are there."""
        return self.growth.spec if self.growth else self.spec

    @property
    def all_machines(self) -> tuple[Machine, ...]:
        """The cluster's machines and those that are being added."""
        return (*self.machines, *(self.growth.machines if self.growth else ()))

    def is_of(self, resource: str) -> bool:
        """Whether it is this resource's, by its URN; one recorded by an early version is any's of its stack."""
        return resource in ("", self.resource or resource)

    @property
    def join_seconds(self) -> float:
        """Seconds from the reservation to the deadline."""
        return (self.deadline - self.reserved_at).total_seconds()

    def missed(self, now: datetime) -> bool:
        """Whether it has not joined by its deadline: every wait of it would be over before it began."""
        return self.state is State.PROVISIONING and now > self.deadline

    @property
    def over(self) -> bool:
        """Ended, and nothing of it is left: its name is free."""
        return self.state in ENDED and self.released


def fold(entries: Sequence[Entry]) -> View | None:
    """The newest incarnation in the events of one cluster name; None where there is none.

    Raises :class:`Refused` where an event can't be understood.
    """
    starts = [number for number, entry in enumerate(entries) if entry.type == Happened.RESERVED]
    view: View | None = None
    for entry in entries[starts[-1] :] if starts else ():
        view = after(view, entry)
    return view


def after(view: View | None, entry: Entry) -> View | None:
    """The view after one more event of its name; None before the first reservation.

    Raises :class:`Refused` where the event can't be understood: it holds what this version doesn't know, or
    the state doesn't allow it.
    """
    try:
        if entry.type == Happened.RESERVED:
            return _reserved(entry)
        if view is None or entry.cluster_id != view.cluster_id:
            return view
        return view.model_copy(update=_change(view, entry))
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"the ledger's event {entry.seq} ({entry.type} of {entry.cluster}) can't be understood: {_fact(error)}",
            "a newer version wrote it, or it is damaged: upgrade runcrate-iac",
        ) from error


def _fact(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


def _reserved(first: Entry) -> View:
    return View(
        name=first.cluster,
        cluster_id=first.cluster_id,
        owner=first.data["owner"],
        resource=first.data.get("resource", ""),
        spec=ClusterSpec.model_validate(first.data["spec"]),
        state=start(),
        since=first.at,
        reserved_at=first.at,
        deadline=first.data["deadline"],
        price_per_hour=Money(usd=first.data["price_per_hour"]),
    )


def _change(view: View, entry: Entry) -> dict[str, Any]:
    data, change = entry.data, dict[str, Any]()
    match entry.type:
        case Note.ASKED | Note.MACHINE_MADE | Note.MACHINES | Note.MACHINE_GONE | Note.MACHINE_LOST:
            change = _machines_changed(view, entry)
        case Note.STEP_STARTED | Note.GROWTH_STARTED | Note.NODE_JOINED | Note.GROWN | Note.GROWTH_UNDONE:
            change = _grow(view, entry)
        case Note.HEAD_GIVEN_UP:
            change = {"head_given_up": True}
        case Note.SPEC_CHANGED:
            change = {"spec": ClusterSpec.model_validate(data["spec"])}
        case Note.TAKEN_OVER:
            change = {"resource": data["resource"]}
            if "owner" in data:
                change |= {"owner": data["owner"], "former_owners": (*view.former_owners, view.owner)}
        case Note.STEP_ENDED:
            change = _step_ended(view, data)
        case kind if kind in Happened.__members__.values():
            change = _advance(view, Happened(kind), entry.at, by_step="step" in data)
    return change


def _step_ended(view: View, data: dict[str, Any]) -> dict[str, Any]:
    step, found = Step(data["step"]), tuple(Condition.model_validate(c) for c in data["conditions"])
    change: dict[str, Any] = {"findings": {**view.findings, step: found}}
    if not data["ok"] and view.joined_at is not None:
        first = first_to_repeat(step, found)
        change["repeats"] = {**view.repeats, first: view.repeats.get(first, 0) + 1}
    return change


def _machines_changed(view: View, entry: Entry) -> dict[str, Any]:
    data = entry.data
    match entry.type:
        case Note.ASKED:
            return {"asked": True, "up_at": None}
        case Note.MACHINE_MADE:
            return _listed(view, {data["machine"]: data["node"]})
        case Note.MACHINES:
            up = tuple(Machine.model_validate(m) for m in data["machines"])
            return _listed(view, {m.id: node_name(m.index) for m in up}) | _sorted(view, up) | {"up_at": entry.at}
        case Note.MACHINE_GONE:
            return {
                "gone": (*view.gone, data["machine"]),
                "made": {data["machine"]: data["node"], **view.made},
                "joined": {key: at for key, at in view.joined.items() if key != data["machine"]},
            }
        case _:
            return {"losses": view.losses + 1}


def _listed(view: View, made: dict[str, str]) -> dict[str, Any]:
    """The provider has these machines, by id and node; one may have the id of one that is gone."""
    return {"made": {**view.made, **made}, "gone": tuple(key for key in view.gone if key not in made)}


def _sorted(view: View, up: Sequence[Machine]) -> dict[str, Any]:
    """Which of the machines are nodes, and which are being added."""
    if view.growth is None:
        return {"machines": tuple(up), "head_given_up": False}
    nodes = tuple(machine for machine in up if machine.index < view.spec.nodes)
    added = tuple(machine for machine in up if machine.index >= view.spec.nodes)
    return {"machines": nodes, "growth": view.growth.model_copy(update={"machines": added})}


def _grow(view: View, entry: Entry) -> dict[str, Any]:
    data = entry.data
    match entry.type:
        case Note.STEP_STARTED:
            if view.growth is None or data["step"] != Step.JOIN:
                return {}
            return {"growth": view.growth.model_copy(update={"joining": True})}
        case Note.GROWTH_STARTED:
            price = Money(usd=data["price_per_machine"])
            return {
                "growth": Growth(spec=data["spec"], since=entry.at, deadline=data["deadline"], price_per_machine=price)
            }
        case Note.NODE_JOINED:
            rate = {data["node"]: Decimal(data["price_per_hour"])}
            return {"joined": {**view.joined, data["machine"]: entry.at}, "rates": {**view.rates, **rate}}
        case Note.GROWN:
            if view.growth is None:
                msg = "none was being added"
                raise ValueError(msg)
            added = view.growth.price_per_machine.times(view.growth.spec.nodes - view.spec.nodes)
            return {
                "spec": view.growth.spec,
                "machines": view.all_machines,
                "price_per_hour": view.price_per_hour.plus(added),
                "growth": None,
            }
        case _:
            others = {step: found for step, found in view.findings.items() if step not in RELEASES}
            return {"growth": None, "losses": view.losses + 1, "findings": others}


def _advance(view: View, happened: Happened, at: datetime, *, by_step: bool) -> dict[str, Any]:
    change: dict[str, Any] = {"state": advance(view.state, happened), "since": at}
    if happened in (Happened.JOINED, Happened.JOINED_BARE):
        rate = view.price_per_hour.usd / view.spec.nodes
        change |= {
            "joined_at": at,
            "joined": dict.fromkeys((machine.id for machine in view.machines), at),
            "rates": {node_name(index): rate for index in range(view.spec.nodes)},
        }
    if happened is Happened.NODE_LOST and not by_step:  # a step's findings say which steps are needed again
        change["losses"] = view.losses + 1
    if happened is Happened.RELEASED:
        change |= {"released": True, "ended_at": at}
    return change
