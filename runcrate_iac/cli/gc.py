"""``runcrate-iac gc``."""

from __future__ import annotations

from typing import Annotated

import typer

from runcrate_iac.cli import output
from runcrate_iac.cli.display import Display
from runcrate_iac.engine import forgotten
from runcrate_iac.engine.forgotten import Ended, Found
from runcrate_iac.model.network import node_name

Release = Annotated[bool, typer.Option("--release", help="Release the machines that belong to nothing; asks first.")]


def gc(release: Release = False, yes: output.Yes = False, as_json: output.AsJson = False) -> None:
    """List the machines that carry a cluster's mark, and those that belong to no living cluster.

    Every provider is asked, so machines are found whose cluster was lost: the ledger was damaged, or an answer was.
    With --release those that belong to nothing are released, and it is proved; machines of a living cluster, of a
    pool, or of one that a command works on are never touched.

    A damaged ledger is kept aside, and what can still be read of it is saved; damaged files of Pulumi's are kept
    aside too.

    Exit code 5 where a machine can't be proved gone, or a provider can't be asked.
    """
    found = forgotten.look()
    if not as_json:
        _show(found)
    machines = sum(len(marked.machines) for marked in found.orphans)
    if release and machines and output.confirm(f"Release {machines} machines that belong to nothing?", yes=yes):
        with Display(as_json=as_json) as display:
            released = tuple(forgotten.release(marked, display) for marked in found.orphans)
        found = found.model_copy(update={"released": released})
    if as_json:
        output.document(found.model_dump(mode="json"))
    elif machines and not release:
        output.console.print(f"\n{output.this_command()} gc --release  # releases the {machines} of nothing")
    for ended in () if as_json else found.released:
        _receipt(ended)
    if found.silent or any(ended.left or ended.error for ended in found.released):
        raise typer.Exit(5)


def _show(found: Found) -> None:
    if saved := found.salvaged:
        counts = ", ".join(f"{name}: {number}" for name, number in saved.events.items()) or "none"
        output.console.print(f"The ledger was damaged; it is kept as {saved.kept}")
        output.console.print(f"Events saved: {counts}; left out for want of one before them: {saved.left_out}")
    for name, kept in found.stacks.items():
        output.console.print(f"Pulumi's state of {name} was damaged; it is kept in {kept}")
        output.console.print(f"If {name} is up, the same `up` takes its machines up again")
    for name, said in found.silent.items():
        output.messages.print(f"{name} can't be asked: {said}")
    rows = [
        (one.cluster_id, one.provider, node_name(machine.index), machine.state, one.known, one.belongs_to or "nothing")
        for one in found.marked
        for machine in one.machines
    ]
    if rows:
        output.table(("mark", "provider", "node", "machine", "the ledger says", "belongs to"), rows)
    else:
        output.console.print("no machine carries a cluster's mark")


def _receipt(ended: Ended) -> None:
    for machine_id, proof in ended.gone.items():
        output.console.print(f"released {machine_id}: {proof}")
    for machine_id in ended.left:
        output.messages.print(f"not released {machine_id}: the provider still lists it; run the same again")
    if ended.error:
        output.messages.print(f"{ended.cluster_id}: {ended.error}")
