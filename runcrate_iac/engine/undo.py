"""What `up` makes, and how each part of it is undone: in reverse, going on past what fails (C8, X1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from runcrate_iac.engine.pulumi import Stack, end_orphans, left_behind
from runcrate_iac.errors import Leftover, StateUnwritable
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines import step as machines
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.provider import Provider
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model.progress import Event, Report, Step
from runcrate_iac.provision.leave import leave

End = Callable[[View, Provider, Ledger, Report], Coroutine[Any, Any, View]]
"""How the machines end: :func:`machines.release`, or :func:`machines.give_up` for those that never joined."""


@dataclass
class Undoing:
    """One run of the parts below."""

    view: View
    end: End
    ledger: Ledger
    on_event: Callable[[Event], None]
    open_stack: Callable[[], Stack] | None
    """The cluster's Pulumi stack; None where there is no Pulumi to ask."""


def _end_pulumi(undoing: Undoing) -> None:
    end_orphans(undoing.view.name)


def _undo_join(undoing: Undoing) -> None:
    """Machines that stay with the user become what they were; the others are released as they are."""
    view = undoing.ledger.latest(undoing.view.name) or undoing.view
    if view.spec.provider == GivenProvider.name and view.machines and not view.over:
        leave(view.name, view.cluster_id, view.all_machines, Feed(view.name, Step.JOIN, undoing.on_event).report)


def _release_machines(undoing: Undoing) -> None:
    """Without Pulumi, which may be what broke."""
    view = undoing.ledger.latest(undoing.view.name) or undoing.view
    undoing.view = asyncio.run(undoing.end(view, provider_of(view.spec), undoing.ledger, _report(undoing)))


def _forget_keys(undoing: Undoing) -> None:
    if undoing.view.over:
        machines.forget(undoing.view.name)


def _destroy_stack(undoing: Undoing) -> None:
    if undoing.view.over and undoing.open_stack and left_behind(undoing.view.name):
        undoing.open_stack().destroy()


PARTS: tuple[tuple[str, Callable[[Undoing], None]], ...] = (
    ("Pulumi's stack", _destroy_stack),
    ("keys on this computer", _forget_keys),
    ("machines", _release_machines),
    ("the join", _undo_join),
    ("steps that run", _end_pulumi),
)
"""What there is of a cluster beside its ledger, in the order in which `up` makes it, each with its undo. All can be
repeated. Keys and stack stay while a machine may still be there."""


def undo(undoing: Undoing) -> list[Exception]:
    """Undo every part, the last one first; ``undoing.view`` is the cluster as it is then.

    A ledger that can't be written keeps no machine alive: what could not be noted is one of the failures. Returns
    what failed, machines that may be left over before anything else.
    """
    failures: list[Exception] = []
    try:
        with undoing.ledger.keeping(_report(undoing)):
            for part, how in reversed(PARTS):
                _undo_part(undoing, part, how, failures)
    except StateUnwritable as error:
        failures.append(error)
    return sorted(failures, key=lambda failure: not isinstance(failure, Leftover))


def _undo_part(undoing: Undoing, part: str, how: Callable[[Undoing], None], failures: list[Exception]) -> None:
    note = partial(undoing.ledger.note, undoing.view.name, undoing.view.cluster_id)
    note(Note.UNDO_STARTED, part=part)
    said = ""
    try:
        how(undoing)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other parts are undone all the same
        failures.append(error)
        said = f"{type(error).__name__}: {error}"
    note(Note.UNDO_ENDED, part=part, error=said)


def _report(undoing: Undoing) -> Report:
    return Feed(undoing.view.name, Step.MACHINES, undoing.on_event).report
