"""``runcrate-iac up SPEC``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runcrate_iac.cli import output
from runcrate_iac.cli.display import Display
from runcrate_iac.cli.offers import available, chosen, more
from runcrate_iac.errors import Failed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import View
from runcrate_iac.machines.step import refuse_change
from runcrate_iac.model import ray
from runcrate_iac.model.lifecycle import State
from runcrate_iac.model.spec import Software
from runcrate_iac.specfile import load

JoinTimeout = Annotated[
    int | None,
    typer.Option("--join-timeout", metavar="SECONDS", help="Until all nodes reach all, or everything is released."),
]
ReplaceHead = Annotated[
    bool, typer.Option("--replace-head", help="Where the head's disk is lost, go on without what was on it.")
]
Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The cluster's spec, a YAML file.")]


def up(
    spec: Spec,
    join_timeout: JoinTimeout = None,
    replace_head: ReplaceHead = False,
    yes: output.Yes = False,
    as_json: output.AsJson = False,
) -> None:
    """Bring the cluster in SPEC up whole, or release everything.

    Shows the price per hour before anything is reserved. Run again, it changes nothing where nothing is to change,
    and repairs what is not done where the cluster is degraded. With more `nodes` it adds workers to a cluster that is
    ready, all of them or none.

    A spec:

    \b
    name: demo
    nodes: 2
    software: slurm          # slurm | kubernetes | ray | none
    provider: local
    machine: {kind: vm, gpu: H100, gpus: 8}
    setup: ./setup.sh        # optional: runs as root on every node, after the software
    """  # noqa: D301 - the \b is for click: it keeps the lines
    from runcrate_iac.engine import install, transaction  # noqa: PLC0415 - Pulumi loads when it is needed
    from runcrate_iac.engine.program import owner  # noqa: PLC0415

    wanted = load(spec, join_timeout=join_timeout)
    engine = install.require()
    view = Ledger().current(wanted.name)
    if view is None:
        output.news(output.price(chosen(wanted)), as_json=as_json)
        output.agree(f"Bring up {wanted.name}?", yes=yes, as_json=as_json)
    else:
        refuse_change(view, wanted, owner(wanted.name))
        if offer := more(view, wanted):
            output.news(output.growth(offer, view.price_per_hour), as_json=as_json)
            output.agree(f"Add {offer.machines} workers to {wanted.name}?", yes=yes, as_json=as_json)
    try:
        with Display(as_json=as_json) as display:
            view, changed = transaction.up(wanted, engine, display, replace_head=replace_head)
    except Failed as failure:
        if view is None:
            failure.offers = tuple(output.price(offer) for offer in available(wanted))
        raise
    end(view, changed, "nothing to change", as_json=as_json)


def end(view: View, changed: int, nothing: str, *, as_json: bool) -> None:
    """Print the cluster and the lines to type next; ``nothing`` says that no resource changed. 4 where degraded."""
    if as_json:
        output.document(view.model_dump(mode="json") | {"resources_changed": changed})
    else:
        said = f"{view.name} is {view.state}" + ("" if changed else f"; {nothing}")
        output.console.print(f"\n[bold green]{said}[/]\n{next_lines(view)}")
    if view.state is State.DEGRADED:
        raise typer.Exit(4)


def next_lines(view: View) -> str:
    """The lines to type next."""
    cli, name = output.this_command(), view.name
    lines = [
        (f"{cli} ssh {name}", "log in to the head, node-0"),
        (f"{cli} ssh {name} node-1 -- hostname", "run a command on a node"),
    ]
    if view.spec.software is Software.SLURM:
        lines += [
            (f"{cli} ssh {name} -- sinfo", "the partition and its nodes"),
            (f"{cli} ssh {name} -- \"sbatch --nodes 2 --wrap 'srun hostname'\"", "submit a batch job"),
        ]
    if view.spec.software is Software.KUBERNETES:
        lines += [
            (f"{cli} ssh {name} -- kubectl get nodes", "the nodes"),
            (f"{cli} kubeconfig {name} --write {name}.kubeconfig", "for kubectl on this computer"),
        ]
    if view.spec.software is Software.RAY:
        lines += [
            (f"{cli} ssh {name} -- ray status", "the nodes, their CPUs and GPUs"),
            (f"{cli} ssh {name} -N -L {ray.FORWARD}", f"while it runs, the dashboard is {ray.DASHBOARD}"),
            (f"ray job submit --address {ray.DASHBOARD} -- hostname", "and takes jobs from here"),
        ]
    lines += [
        (f"{cli} check {name}", "check every node again"),
        (f"{cli} down {name}", "terminate the whole cluster"),
    ]
    width = max(len(command) for command, _ in lines)
    return "\n".join(f"  {command:{width}}  # {why}" for command, why in lines)
