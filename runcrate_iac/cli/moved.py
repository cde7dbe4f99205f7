"""``runcrate-iac moved NAME STACK``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from runcrate_iac.cli import output
from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note
from runcrate_iac.lock import COMMAND_WAITS, at_work, locked
from runcrate_iac.machines import pool

Stack = Annotated[
    str, typer.Argument(metavar="STACK", help="What the stack is called now: organization/project/stack.")
]


def moved(name: output.Name, stack: Stack, as_json: output.AsJson = False) -> None:
    """Say that a cluster's Pulumi stack was renamed, or moved to another backend: it goes on under that stack's name.

    Of a pool (LocalMachines), give the mark that `gc` shows.
    """
    if not re.fullmatch(r"[^/\s]+/[^/\s]+/[^/\s]+", stack):
        raise SpecError(f"no stack is called {stack!r:.200}", "organization/project/stack, as the refusal names it")
    with (
        locked(name, "moved"),
        at_work(name, "moved", lambda what, _: output.news(what, as_json=as_json), COMMAND_WAITS),
    ):
        before = pool.pools().get(name)
        if before is not None:
            pool.move(name, stack)
        else:
            before = _cluster(name, stack)
    if as_json:
        output.document({"name": name, "stack": stack, "before": before})
    else:
        output.console.print(f"{name} belongs to the stack {stack}, which was {before}")


def _cluster(name: str, stack: str) -> str:
    ledger = Ledger()
    view = ledger.latest(name)
    if view is None:
        raise SpecError(f"no cluster has ever been called {name}", "runcrate-iac status lists them")
    if view.owner != stack:  # the next `up` says which resource of it
        ledger.note(name, view.cluster_id, Note.TAKEN_OVER, owner=stack, resource="")
    return view.owner
