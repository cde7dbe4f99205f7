"""Which machines there are and which are gone, in the ledger: noted as they are heard of, released, and proved (X1)."""

from __future__ import annotations

import shutil
from collections.abc import Container, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from runcrate_iac.errors import Leftover, RuncrateError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note, View
from runcrate_iac.machines import fleet
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.provider import Provider
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MOST_NODES
from runcrate_iac.paths import cluster_dir, private_dir

EVERY = range(MOST_NODES)


def hidden(view: View, provider: Provider, now: datetime) -> float:
    """Seconds for which the provider may not list a machine yet that an earlier order made."""
    if not view.asked:
        return 0.0
    since_last_order = (now - view.up_at).total_seconds() if view.up_at else 0.0
    return max(0.0, provider.listing_delay - since_last_order)


def noting(view: View, ledger: Ledger) -> fleet.OnMachine:
    """A function that puts each machine that it hears of for the first time into the ledger."""
    known = set(view.made) - set(view.gone)

    def note(machine: Machine) -> None:
        if machine.id not in known:
            node = node_name(machine.index)
            ledger.note(view.name, view.cluster_id, Note.MACHINE_MADE, machine=machine.id, node=node)
            known.add(machine.id)

    return note


def note_gone(view: View, provider: Provider, ledger: Ledger, *, but: Sequence[Machine]) -> None:
    """Put into the ledger that the provider lists only these machines, so that every other one is gone."""
    now = ledger.latest(view.name)
    if now is None or provider.name == GivenProvider.name:  # those stay: their own resources end them
        return
    for key in sorted(now.made.keys() - {machine.id for machine in but} - set(now.gone)):
        ledger.note(now.name, now.cluster_id, Note.MACHINE_GONE, machine=key, node=now.made[key], proof=proof(provider))


def proof(provider: Provider) -> str:
    """How it is known that a machine is gone (X1)."""
    return f"{provider.name} was asked after the release and does not list it"


async def end(view: View, provider: Provider, ledger: Ledger, report: Report, *, nodes: Container[int] = EVERY) -> None:
    """Release the cluster's machines, those of ``nodes`` by their numbers, until the provider lists none of them.

    Each is noted with its proof. Raises :class:`Leftover` with the list where that can't be proved in time.
    """
    name, note = view.name, noting(view, ledger)

    def known(machine: Machine) -> None:
        with suppress(RuncrateError, OSError):  # a full disk must not keep machines alive
            note(machine)
            _keep_console(name, machine)

    young = hidden(view, provider, ledger.now())
    seen, left = await fleet.release(view.cluster_id, provider, report, hidden=young, known=known, nodes=nodes)
    for machine in seen.values():
        note(machine)
    note_gone(
        view, provider, ledger, but=(*left, *(machine for machine in view.machines if machine.index not in nodes))
    )
    if left:
        remedy = (
            f"runcrate-iac down {name}" if nodes is EVERY else "run the same again, which begins with their release"
        )
        raise Leftover(f"{name}: the provider still lists {fleet.listed(left)}", remedy)


def _keep_console(cluster: str, machine: Machine) -> None:
    """Copy what the machine wrote on its console into the cluster's logs, before it goes with it."""
    if machine.log and (console := Path(machine.log)).exists():
        logs = private_dir(cluster_dir(cluster) / "logs")
        shutil.copyfile(console, logs / f"{node_name(machine.index)}.console.log")
