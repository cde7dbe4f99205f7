"""What verbs print: documents for programs, tables for people, questions and live news."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runcrate_iac.errors import SpecError
from runcrate_iac.model.money import Money
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.spec import cluster_name
from runcrate_iac.steps import INTERRUPTED

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer every question with yes.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The cluster's name.", callback=cluster_name)]

PLAIN_WIDTH = 240
"""Columns where there is no terminal: a pipe should get whole lines."""

console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
messages = Console(stderr=True, highlight=False, soft_wrap=True)


def this_command() -> str:
    """How the user can call this command again: by its name where the shell finds it, else as it was called."""
    name = "runcrate-iac"
    return name if shutil.which(name) or not sys.argv[0].endswith(name) else sys.argv[0]


def document(value: Any) -> None:
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, default=str) + "\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under their columns' names."""
    grid = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(Text(str(cell)) for cell in row))
    console.print(grid)


def news(text: str, *, as_json: bool) -> None:
    """Print what comes before the result, on standard error; with ``--json`` as a line of JSON, as all news there."""
    if as_json:
        sys.stderr.write(json.dumps({"message": text}) + "\n")
    else:
        messages.print(text)


def agree(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask, and leave with nothing done where the answer is no: with ``--json`` a document says so."""
    if not confirm(question, yes=yes):
        if as_json:
            document({"declined": question})
        raise typer.Exit


def confirm(question: str, *, yes: bool) -> bool:
    """Ask, unless ``--yes`` was given.

    Raises :class:`SpecError` where there is nobody to ask.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise SpecError(f"{question} There is no terminal to ask at", "add --yes")
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # Ctrl-C, or the end of the input
        raise typer.Exit(INTERRUPTED) from None


def growth(offer: Offer, before: Money) -> str:
    """What the workers that are added do to the cluster's price per hour (C11)."""
    more = f"+{offer.machines} workers, {offer.price_per_machine} per hour each"
    return f"{more}: the price per hour goes from {before} to {before.plus(offer.price)}"


def price(offer: Offer) -> str:
    """The offer on two lines: the whole cluster's price per hour, and under it a machine's (C3)."""
    simulated = " (simulated)" if offer.gpus_simulated else ""
    what = f"{offer.machines} × {offer.kind} with {offer.gpus_per_machine} {offer.gpu}{simulated}, {offer.location}"
    return f"{what}: {offer.price} per hour\n  {offer.price_per_machine} per machine, joined by {offer.network}"
