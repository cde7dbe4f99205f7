"""``runcrate-iac status [NAME]``."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from runcrate_iac.cli import check as acceptance
from runcrate_iac.cli import output
from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import View
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.machines.watch import said, within
from runcrate_iac.model import ray
from runcrate_iac.model.conditions import broken, sentence
from runcrate_iac.model.lifecycle import State
from runcrate_iac.model.network import MachineState, node_name, private_address
from runcrate_iac.model.spec import Software, cluster_name

Which = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="The cluster's name; without it, all of them.",
        callback=lambda name: None if name is None else cluster_name(name),
    ),
]
UNKNOWN = "unknown"
"""The state of a machine whose provider does not answer."""
Check = Annotated[bool, typer.Option("--check", help="Run `check` first, the acceptance suite on every node.")]


def status(name: Which = None, check: Check = False, as_json: output.AsJson = False) -> None:
    """Show a cluster's state, its nodes and what was found on them; or the list of clusters.

    Exit code 4 where the cluster is degraded.
    """
    if name is None:
        _all(as_json=as_json)
        return
    view = Ledger().latest(name)
    if view is None:
        raise SpecError(f"no cluster has ever been called {name}", "runcrate-iac status lists them")
    if check:
        view, _ = acceptance.run(acceptance.up(name), "status --check", as_json=as_json)
    machines, silent = _machines(view)
    if as_json:
        found = [condition.model_dump(mode="json") for condition in view.conditions]
        told = {"machine_states": machines, "provider_error": silent, "conditions": found}
        output.document(view.model_dump(mode="json") | told)
    else:
        _show(view, machines)
        if silent:
            output.messages.print(f"{view.spec.provider} can't be asked: {silent}", markup=False)
    if view.state is State.DEGRADED:
        raise typer.Exit(4)


def _all(*, as_json: bool) -> None:
    ledger = Ledger()
    views = [view for name in ledger.clusters() if (view := ledger.latest(name))]
    if as_json:
        output.document([view.model_dump(mode="json") for view in views])
        return
    rows = [(v.name, v.state, f"{v.since:%Y-%m-%d %H:%M}", v.spec.nodes, v.spec.software, v.owner) for v in views]
    output.table(("cluster", "state", "since (UTC)", "nodes", "software", "stack"), rows)


def _machines(view: View) -> tuple[dict[str, str], str]:
    """What the provider says of each machine now, and why it says nothing; that is when the ledger is needed most."""
    if view.over or view.spec.provider == "given":
        return {}, ""
    nodes = {index: node_name(index) for index in range(view.declared.nodes)}
    try:
        found = asyncio.run(within(provider_of(view.spec).list(view.cluster_id)))
    except Exception as error:  # noqa: BLE001 - of another's program it may be anything
        return dict.fromkeys(nodes.values(), UNKNOWN), said(error)
    listed = {machine.index: machine.state for machine in found}
    return {name: listed.get(index, MachineState.GONE) for index, name in nodes.items()}, ""


def _show(view: View, machines: dict[str, str]) -> None:
    since = f"{view.since:%Y-%m-%d %H:%M} UTC"
    output.console.print(f"[bold]{view.name}[/] is [bold]{view.state}[/] since {since} ({view.cluster_id})")
    output.console.print(f"{view.spec.nodes} nodes, {view.spec.software}, {view.price_per_hour} per hour")
    if view.growth:
        added = f"{view.growth.spec.nodes - view.spec.nodes} workers since {view.growth.since:%H:%M:%S} UTC"
        output.console.print(f"adding {added}; where no command works on it, `up` or `down` finishes that")
    rows = [(name, private_address(index), state) for index, (name, state) in enumerate(machines.items())]
    output.table(("node", "private address", "machine"), rows)
    if view.spec.software is Software.RAY and view.state is State.READY:
        command = f"{output.this_command()} ssh {view.name} -N -L {ray.FORWARD}"
        output.console.print(f"while `{command}` runs, Ray's dashboard is {ray.DASHBOARD}", soft_wrap=True)
    for condition in broken(view.conditions):
        output.console.print(f"[red]✗[/] {escape(sentence(condition))}")
        for line in condition.log:
            output.console.print(f"    {escape(line)}")
