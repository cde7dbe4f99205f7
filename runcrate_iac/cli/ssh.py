"""``runcrate-iac ssh NAME [NODE] [-- command]``."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated

import typer

from runcrate_iac.cli import output
from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.model.network import node_name
from runcrate_iac.paths import cluster_dir

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": True}
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NODE] [SSH OPTIONS] [-- COMMAND]", help="The node (default node-0), ssh's own options."),
]


def ssh(name: output.Name, words: Words = None, as_json: output.AsJson = False) -> None:
    """Log in to a node, or run a command there. NODE is `node-1` or just `1`; options before `--` go to ssh.

    With --json the command's output and exit code come as a document; without a command, the ssh call itself.
    """
    argv = call(name, *_split(words or []))
    if not as_json:
        os.execvp(argv[0], argv)  # noqa: S606 - ssh takes this process's place, terminal and signals
    if "--" not in sys.argv:
        output.document({"argv": argv})
        return
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    output.document({"exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr})
    raise typer.Exit(done.returncode)


def _split(words: list[str]) -> tuple[str, list[str], list[str]]:
    """The node, ssh's options and the command; what follows ``--`` is the command."""
    after = len(sys.argv) - sys.argv.index("--") - 1 if "--" in sys.argv else 0
    before, command = words[: len(words) - after], words[len(words) - after :]
    if before and not before[0].startswith("-"):
        return before[0], before[1:], command
    return node_name(0), before, command


def call(name: str, node: str, options: list[str], command: list[str]) -> list[str]:
    """The ssh call for a node of a cluster that is up.

    Raises :class:`SpecError` where there is no such cluster or node.
    """
    view = Ledger().current(name)
    if view is None:
        raise SpecError(f"no cluster called {name} is up", "runcrate-iac status lists them")
    wanted = node_name(int(node)) if node.isdecimal() else node
    if wanted not in (nodes := [node_name(index) for index in range(view.spec.nodes)]):
        raise SpecError(f"{name} has no node {node}", "one of " + ", ".join(nodes))
    config = cluster_dir(name) / "ssh_config"
    if not config.exists():
        raise SpecError(f"{name} is {view.state}: its machines cannot be reached yet", f"runcrate-iac events {name}")
    return ["ssh", "-F", str(config), *options, wanted, *command]
