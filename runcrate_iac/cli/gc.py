"""``runcrate-iac gc``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from runcrate_iac.cli import output
from runcrate_iac.cli.display import Display
from runcrate_iac.engine import forgotten as engine
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.salvage import Salvaged
from runcrate_iac.machines import forgotten
from runcrate_iac.machines.forgotten import Marked
from runcrate_iac.model.network import node_name

Release = Annotated[bool, typer.Option("--release", help="Release the machines that belong to nothing; asks first.")]


def gc(release: Release = False, yes: output.Yes = False, as_json: output.AsJson = False) -> None:
    """List the machines that carry a cluster's mark, and those that belong to no living cluster.

    Every provider is asked, so machines are found whose cluster was lost: the ledger was damaged, or an answer was.
    With --release those that belong to nothing are released, and it is proved; machines of a living cluster, of a
    pool, or of one that a command works on are never touched. A damaged ledger is kept aside, and what can still be
    read of it is saved.

    Exit code 5 where a machine can't be proved gone, or a provider can't be asked.
    """
    saved = engine.salvage_alone()
    ledger = Ledger()
    found, silent = asyncio.run(forgotten.find(ledger, engine.busy))
    orphans = [marked for marked in found if not marked.belongs_to]
    if not as_json:
        _tell(saved, found, silent)
    released: list[engine.Ended] = []
    machines = sum(len(marked.machines) for marked in orphans)
    if release and orphans and output.confirm(f"Release {machines} machines that belong to nothing?", yes=yes):
        with Display(as_json=as_json) as display:
            released = [engine.release(marked, ledger, display) for marked in orphans]
    _end(saved, found, silent, released, as_json=as_json)
    if not as_json and orphans and not release:
        output.console.print(
            f"\n{output.this_command()} gc --release  # releases the {machines} that belong to nothing"
        )
    if silent or any(ended.left or ended.error for ended in released):
        raise typer.Exit(5)


def _tell(saved: Salvaged | None, found: Sequence[Marked], silent: dict[str, str]) -> None:
    if saved:
        counts = ", ".join(f"{name}: {number}" for name, number in saved.events.items()) or "none"
        output.console.print(f"The ledger was damaged; it is kept as {saved.kept}")
        output.console.print(
            f"Events saved: {counts}; left out, since an event before them is lost: {saved.left_out}\n"
        )
    for name, said in silent.items():
        output.messages.print(f"{name} can't be asked: {said}")
    rows = [
        (marked.cluster_id, marked.provider, node_name(machine.index), machine.id, machine.state, marked.known,
         marked.belongs_to or "nothing")
        for marked in found for machine in marked.machines
    ]  # fmt: skip
    if rows:
        output.table(("mark", "provider", "node", "machine", "is", "the ledger", "belongs to"), rows)
    else:
        output.console.print("no machine carries a cluster's mark")


def _end(
    saved: Salvaged | None,
    found: Sequence[Marked],
    silent: dict[str, str],
    released: Sequence[engine.Ended],
    *,
    as_json: bool,
) -> None:
    if as_json:
        document: dict[str, Any] = {"salvaged": saved.model_dump(mode="json") if saved else None, "silent": silent}
        document["marked"] = [marked.model_dump(mode="json") for marked in found]
        document["released"] = [ended.model_dump(mode="json") for ended in released]
        output.document(document)
        return
    for ended in released:
        for machine_id, proof in ended.gone.items():
            output.console.print(f"released {machine_id}: {proof}")
        for machine_id in ended.left:
            output.messages.print(f"NOT released {machine_id}: the provider still lists it; run the same again")
        if ended.error:
            output.messages.print(f"{ended.cluster_id}: {ended.error}")
