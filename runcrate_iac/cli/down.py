"""``runcrate-iac down NAME``."""

from __future__ import annotations

from typing import Annotated

import typer

from runcrate_iac.cli import output
from runcrate_iac.cli.display import Display
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.machines import pool

NoFaults = Annotated[bool, typer.Option("--no-faults", help="End a rehearsal: inject no faults any more.")]

StackGone = Annotated[
    bool,
    typer.Option("--stack-gone", help="Its own Pulumi stack is gone for good: end it here. Of a pool, give the mark."),
]


def down(
    name: output.Name,
    no_faults: NoFaults = False,
    stack_gone: StackGone = False,
    yes: output.Yes = False,
    as_json: output.AsJson = False,
) -> None:
    """Terminate the whole cluster: every machine together. Finishes whatever an interrupted command left."""
    if stack_gone and name in pool.pools():
        _end_pool(name, yes=yes, as_json=as_json)
        return
    from runcrate_iac.engine import install, transaction  # noqa: PLC0415 - Pulumi loads when it is needed

    view = Ledger().current(name)
    if view is not None:
        question = f"Terminate {name} ({view.state}, {view.spec.nodes} machines, /shared included)?"
        output.agree(question, yes=yes, as_json=as_json)
    with Display(as_json=as_json) as display:
        after = transaction.down(name, install.find(), display, faults=not no_faults, stack_gone=stack_gone)
    if as_json:
        output.document({"cluster": name, "released": after is not None, "state": after.state if after else None})
    else:
        output.console.print(f"{name} is {after.state}" if after else f"{name}: nothing to do, no such cluster is up")


def _end_pool(mark: str, *, yes: bool, as_json: bool) -> None:
    output.agree(f"Terminate the machines of the pool {mark}?", yes=yes, as_json=as_json)
    pool.end(mark)
    if as_json:
        output.document({"pool": mark, "released": True})
    else:
        output.console.print(f"{mark} is released")
