"""``runcrate-iac artifacts``: build, verify and seal the directory that closed networks install from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from runcrate_iac.artifacts import store
from runcrate_iac.cli import output
from runcrate_iac.cli.setup import say
from runcrate_iac.model.artifacts import Manifest, Problem
from runcrate_iac.model.spec import Software

app = typer.Typer(
    name="artifacts",
    help="The files that nodes would else download, in a directory with their checksums.\n\n"
    "Name it in a spec as `artifacts: DIR`, and nodes need no way to the internet for them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The artifact directory.")]


class Buildable(StrEnum):
    """What there are artifacts of."""

    KUBERNETES = Software.KUBERNETES
    RAY = Software.RAY


@app.command()
def build(
    software: Annotated[Buildable, typer.Argument(help="What DIR is to have.")],
    directory: Directory,
    as_json: output.AsJson = False,
) -> None:
    """Bring into DIR what it lacks of this software, and write its manifest.

    kubernetes: built from Go modules, once (ten minutes on two cores; it needs Go and mmdebstrap), and kept in the
    user's cache folder. ray: its wheels, fetched by pip from the index that pip is set up for.

    What is there already stays. Broken off, the same command goes on. Official files are better where they can be had:
    put them into DIR and seal it (docs/artifacts.md).
    """
    from runcrate_iac.artifacts.build.fill import fill  # noqa: PLC0415 - loads what the builds need

    manifest = fill(directory, Software(software), say(as_json=as_json))
    _tell(directory, manifest, as_json=as_json)


@app.command()
def seal(directory: Directory, as_json: output.AsJson = False) -> None:
    """Write the manifest of what is in DIR now: after it was filled by hand, or a change was meant."""
    _tell(directory, store.seal(directory, say(as_json=as_json)), as_json=as_json)


@app.command()
def verify(directory: Directory, as_json: output.AsJson = False) -> None:
    """Compare every file in DIR with the manifest. Exit code 2 where one is missing, altered or not listed."""
    manifest = store.read(directory)
    problems = store.verify(directory, manifest.files, say(as_json=as_json)) + store.unlisted(directory, manifest)
    _tell(directory, manifest, problems, as_json=as_json)
    if problems:
        if not as_json:
            again = f"{output.this_command()} artifacts seal {directory}"
            output.messages.print(f"bring these files back, or `{again}` if the change was meant")
        raise typer.Exit(2)


def _tell(directory: Path, manifest: Manifest, problems: list[Problem] | None = None, *, as_json: bool) -> None:
    size = sum(entry.bytes for entry in manifest.files.values())
    if as_json:
        wrong = [problem.model_dump() for problem in problems or ()]
        output.document({"directory": str(directory), "files": len(manifest.files), "bytes": size, "problems": wrong})
        return
    for problem in problems or ():
        output.console.print(f"{directory / problem.path}: {problem.fact}")
    if not problems:
        output.console.print(f"{directory}: {len(manifest.files)} files, {size // 10**6} MB, as the manifest says")
