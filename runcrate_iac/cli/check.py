"""``runcrate-iac check NAME``."""

from __future__ import annotations

import time
from typing import Any

import typer
from rich.markup import escape

from runcrate_iac import steps
from runcrate_iac.cli import output
from runcrate_iac.cli.display import Display
from runcrate_iac.errors import Refused, SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.ledger.view import View
from runcrate_iac.machines.step import made
from runcrate_iac.model.acceptance import table
from runcrate_iac.model.conditions import broken, sentence
from runcrate_iac.model.documents import StepInput
from runcrate_iac.model.lifecycle import State
from runcrate_iac.model.network import node_name
from runcrate_iac.model.progress import Outcome, Step
from runcrate_iac.model.storage import has_shared_folder

UP = (State.INSTALLING, State.READY, State.DEGRADED)
"""The states in which there are nodes to look at."""


def check(name: output.Name, as_json: output.AsJson = False) -> None:
    """Run the acceptance suite on every node now, and show what was found.

    All nodes ping all over the private network, with large packets; clocks, names, GPUs, the hostfile, /shared, and
    the software's own check. A node that can't be reached is named, and the others are looked at.

    Exit code 4 where something is wrong.
    """
    view, outcome = run(up(name), "check", as_json=as_json)
    if as_json:
        output.document(_document(view, outcome))
    else:
        show(view, outcome)
    if not outcome.ok or view.state is State.DEGRADED:
        raise typer.Exit(4)


def up(name: str) -> View:
    """The cluster, whose nodes can be worked on.

    Raises :class:`SpecError` where there is none of this name, :class:`Refused` where it is not up.
    """
    view = Ledger().latest(name)
    if view is None:
        raise SpecError(f"no cluster has ever been called {name}", "runcrate-iac status lists them")
    if view.state not in UP:
        raise Refused(f"{view.name} is {view.state}: there is no node to look at", "bring it up first")
    return view


def run(view: View, verb: str, *, as_json: bool) -> tuple[View, Outcome]:
    """Check the cluster under its lock, with live news; the cluster afterwards, and what was found."""
    from runcrate_iac.lock import COMMAND_WAITS, at_work, locked  # noqa: PLC0415 - loaded when it is needed
    from runcrate_iac.provision.alive import looker  # noqa: PLC0415
    from runcrate_iac.provision.step import perform  # noqa: PLC0415

    document = StepInput(spec=view.spec, made=made(view.model_copy(update={"growth": None})))
    ledger = Ledger()
    with locked(view.name, verb), Display(as_json=as_json) as display:
        feed = Feed(view.name, Step.CHECK, display)
        dead = looker(Step.CHECK, view, feed.report)
        work = lambda: perform(Step.CHECK, document, time.time(), feed.emit, dead=dead)  # noqa: E731
        with at_work(view.name, verb, feed.report, COMMAND_WAITS):
            outcome = steps.record(ledger, view.name, Step.CHECK, work, feed)
    return ledger.current(view.name) or view, outcome


def show(view: View, outcome: Outcome) -> None:
    """Print the table, and under it what is wrong with its remedy."""
    nodes = [node_name(index) for index in range(view.spec.nodes)]
    shared = has_shared_folder(view.spec.machine)
    output.table(*table(nodes, view.spec.software, outcome.conditions, shared=shared))
    for condition in outcome.conditions:
        if condition.node is None and not broken([condition]):
            output.console.print(f"[green]✓[/] {escape(sentence(condition))}")
    for condition in broken(outcome.conditions):
        output.console.print(f"[red]✗[/] {escape(sentence(condition))}")
    output.console.print(f"[bold]{view.name}[/] is [bold]{view.state}[/]")


def _document(view: View, outcome: Outcome) -> dict[str, Any]:
    return {
        "name": view.name,
        "state": view.state,
        "ok": outcome.ok,
        "conditions": [condition.model_dump(mode="json") for condition in outcome.conditions],
    }
