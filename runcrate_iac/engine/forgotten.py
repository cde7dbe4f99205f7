"""Releasing machines that belong to nothing, and saving a damaged ledger, while no other command is at work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from runcrate_iac.engine import stack_files
from runcrate_iac.errors import Refused, RuncrateError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.ledger.salvage import Salvaged, damaged, salvage
from runcrate_iac.ledger.view import Note
from runcrate_iac.lock import busy, locked
from runcrate_iac.machines import fleet
from runcrate_iac.machines.forgotten import Marked, find, judge, name_of
from runcrate_iac.machines.gone import proof
from runcrate_iac.machines.pool import pools
from runcrate_iac.machines.registry import provider
from runcrate_iac.machines.step import forget
from runcrate_iac.model.base import Model
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.progress import Event, Step


class Ended(Model):
    """What became of the machines of one mark."""

    cluster_id: str
    gone: dict[str, str]
    """By machine id: the proof that it is gone."""
    left: tuple[str, ...]
    """Ids of those that the provider still lists."""
    error: str
    """Why nothing, or not all, was done."""


class Found(Model):
    """What is left over or damaged."""

    salvaged: Salvaged | None
    """What became of the ledger, where it was damaged."""
    stacks: dict[str, str]
    """Where the damaged files of Pulumi's stacks are kept, by the stack's name."""
    silent: dict[str, str]
    """What those providers said that can't be asked, by their name."""
    marked: tuple[Marked, ...]
    released: tuple[Ended, ...] = ()

    @property
    def orphans(self) -> list[Marked]:
        """Machines that belong to nothing that lives."""
        return [marked for marked in self.marked if not marked.belongs_to]


def look() -> Found:
    """Set damaged files aside, and ask every provider for its marked machines.

    Raises :class:`Refused` where the ledger is damaged and another command works.
    """
    salvaged, stacks = _salvage_alone(), _damaged_stacks()
    marked, silent = asyncio.run(find(Ledger(), busy))
    return Found(salvaged=salvaged, stacks=stacks, silent=silent, marked=tuple(marked))


def _salvage_alone() -> Salvaged | None:
    """Save a damaged ledger, unless another command works: that would go on with the damaged file."""
    if (working := busy()) and damaged():
        raise Refused("the ledger is damaged, and " + "; ".join(working.values()), "wait for it, or interrupt it")
    return salvage()


def _damaged_stacks() -> dict[str, str]:
    """Set the damaged files of Pulumi's stacks aside that no other command works on: where they are, by stack."""
    working = busy()
    return {
        name: str(stack_files.set_aside(name))
        for name in stack_files.names()
        if name not in working and stack_files.damage(name)
    }


def release(marked: Marked, on_event: Callable[[Event], None]) -> Ended:
    """Release the machines of a mark that belongs to nothing, and ask the provider until it lists none (X1)."""
    name, cluster_id, ledger = name_of(marked.cluster_id), marked.cluster_id, Ledger()
    report = Feed(name, Step.MACHINES, on_event).report
    source = provider(marked.provider)
    known_by = proof(source)
    gone: list[Machine] = []
    left: Sequence[Machine] = ()
    error = ""
    try:
        with locked(name, "gc"), ledger.keeping(report):
            belongs, _ = judge(cluster_id, lambda: ledger.latest(name), pools(), {})
            if belongs:  # since it was listed
                raise Refused(f"it belongs to {belongs}")
            seen, left = asyncio.run(fleet.release(cluster_id, source, report, hidden=source.listing_delay))
            still = {machine.id for machine in left}
            gone = [machine for key, machine in sorted(seen.items()) if key not in still]
            for machine in gone:
                node = node_name(machine.index)
                ledger.note(name, cluster_id, Note.MACHINE_GONE, machine=machine.id, node=node, proof=known_by)
            if not left and ledger.current(name) is None:
                forget(name)
    except RuncrateError as raised:
        error = raised.message
    return Ended(
        cluster_id=cluster_id,
        gone={machine.id: known_by for machine in gone},
        left=tuple(machine.id for machine in left),
        error=error,
    )
