"""``runcrate-iac bandwidth NAME``."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.markup import escape

from runcrate_iac.cli import output
from runcrate_iac.cli.check import up
from runcrate_iac.errors import Degraded
from runcrate_iac.ledger.view import View
from runcrate_iac.machines.local import LocalProvider
from runcrate_iac.model import network
from runcrate_iac.model.bandwidth import MOST_ALL, Round, Speed, figure, matrix, named, ring, summary, tournament
from runcrate_iac.model.network import Node
from runcrate_iac.model.storage import hostfile


class Pairs(StrEnum):
    """Which pairs are measured."""

    ALL = "all"
    RING = "ring"


Nodes = Annotated[str | None, typer.Option("--nodes", metavar="0,1,…", help="Only between these nodes.")]
Which = Annotated[
    Pairs | None,
    typer.Option("--pairs", help=f"All pairs, or each node with the next. Default: all up to {MOST_ALL} nodes."),
]


def bandwidth(name: output.Name, nodes: Nodes = None, pairs: Which = None, as_json: output.AsJson = False) -> None:
    """Measure what the network between the nodes gives, in Gbit/s and both directions of every pair.

    Over the private network, and beside it over the physical one under it, without encryption. With real GPUs,
    NCCL's all-reduce over all of them too. Jobs that run meanwhile disturb it, and are disturbed.

    Exit code 4 where a pair of the private network could not be measured.
    """
    from runcrate_iac.lock import COMMAND_WAITS, at_work, locked  # noqa: PLC0415 - loaded when it is needed
    from runcrate_iac.provision import ssh  # noqa: PLC0415
    from runcrate_iac.provision.bandwidth import Bandwidth, NotMeasured, longest  # noqa: PLC0415

    view = up(name)
    plan = network.plan(view.machines)
    chosen = plan.nodes if nodes is None else named(nodes, plan.nodes)
    every = pairs is Pairs.ALL or (pairs is None and len(chosen) <= MOST_ALL)
    rounds = tournament(chosen) if every else ring(chosen)
    begun = time.monotonic()

    def tell(what: str) -> None:
        seconds = round(time.monotonic() - begun, 1)
        line = json.dumps({"seconds": seconds, "message": what}) if as_json else f"[{seconds:6.1f} s] {what}"
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    report = lambda what, _: tell(what)  # noqa: E731
    with locked(view.name, "bandwidth"), at_work(view.name, "bandwidth", report, COMMAND_WAITS):
        tell(f"{_count(rounds)} pairs in {len(rounds)} rounds, for {longest(rounds):.0f} s at most")
        run = Bandwidth(plan, ssh.write(view.name, plan), tell)
        speeds = run.measure(rounds)
        nccl, why = None, "the GPUs are simulated"
        if not any(node.machine.gpus_simulated for node in plan.nodes):
            try:
                nccl = run.all_reduce(view.spec.machine.gpus, hostfile(view.spec.machine))
            except NotMeasured as reason:
                why = str(reason)
    notes = _notes(view, every=every, chosen=len(chosen))
    if as_json:
        output.document(_document(view, speeds, notes, nccl, why))
    else:
        _show(chosen, speeds, every=every)
        said = f"{figure(nccl)} Gbit/s bus bandwidth at 1 GiB" if nccl is not None else f"not measured: {why}"
        for line in (summary(speeds), f"NCCL's all-reduce over all GPUs: {said}", *notes):
            output.console.print(escape(line))
    missing = [f"{speed.source} -> {speed.target}" for speed in speeds if speed.private is None]
    if missing and as_json:  # the document has each with its reasons
        raise typer.Exit(Degraded.exit_code)
    if missing:
        raise Degraded(f"not measured over the private network: {', '.join(missing)}", f"runcrate-iac check {name}")


def _count(rounds: tuple[Round, ...]) -> int:
    return sum(len(pairs) for pairs in rounds)


def _notes(view: View, *, every: bool, chosen: int) -> list[str]:
    notes = []
    if not every:
        notes.append(f"Of {chosen} nodes, each was measured with the next one only; --pairs all measures all pairs.")
    if view.spec.provider == LocalProvider.name:
        notes.append("All machines are on this computer and share its CPUs: this is no measure of a real network.")
    return notes


def _document(view: View, speeds: list[Speed], notes: list[str], nccl: float | None, why: str) -> dict[str, Any]:
    return {
        "name": view.name,
        "unit": "Gbit/s",
        "pairs": [speed.model_dump(mode="json") for speed in speeds],
        "nccl_all_reduce": {"bus": nccl, "reason": "" if nccl is not None else why},
        "notes": notes,
    }


def _show(chosen: tuple[Node, ...], speeds: list[Speed], *, every: bool) -> None:
    if every:
        output.console.print("Gbit/s over the private network / over the physical one, without encryption\n")
        output.table(*matrix(speeds, [node.name for node in chosen]))
    else:
        rows = [(s.source, s.target, figure(s.private), figure(s.physical)) for s in speeds]
        output.table(("from", "to", "private, Gbit/s", "physical, Gbit/s"), rows)
    output.console.print()
    for reason in dict.fromkeys(reason for speed in speeds for reason in speed.reasons):
        output.console.print(f"[red]✗[/] {escape(reason)}")
