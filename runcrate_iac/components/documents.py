"""The documents that a cluster's steps read, as pure functions of the declared arguments."""

from collections.abc import Mapping
from typing import Any

from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import fold
from runcrate_iac.model.documents import MachinesJob, Made, StepInput
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import ClusterSpec, parse
from runcrate_iac.specfile import with_user_keys

FIELDS = {
    Step.JOIN: {"name", "nodes", "ssh_public_keys"},
    Step.STORAGE: {"name", "nodes", "machine"},
    Step.SOFTWARE: {"name", "nodes", "machine", "software"},
    Step.CHECK: {"name", "nodes", "machine", "software"},
}
"""The spec's fields that matter to a step on the nodes: a change of another one does not run it again."""


def spec_of(name: str, args: Mapping[str, Any]) -> ClusterSpec:
    """The spec that a component's resolved arguments declare.

    Raises :class:`~runcrate_iac.errors.SpecError` that names every wrong field.
    """
    fields = {key: value for key, value in args.items() if key not in ("machines", "cluster_name")}
    fields["name"] = args.get("cluster_name") or name
    if args.get("machines") is not None:
        fields |= {"provider": "given", "nodes": fields.get("nodes", len(args["machines"]))}
    return with_user_keys(parse(fields, source=f"Cluster {name}"))


def pool_of(name: str, owner: str, args: Mapping[str, Any]) -> str:
    """The document of a pool of machines that are given to a cluster later."""
    spec = parse({key: value for key, value in args.items() if value is not None} | {"name": name}, f"pool {name}")
    return MachinesJob(spec=spec, owner=owner).model_dump_json()


def relevant(spec: ClusterSpec, step: Step) -> ClusterSpec:
    """The spec with every field that does not matter to this step at its default."""
    return ClusterSpec(**{field: getattr(spec, field) for field in FIELDS[step]})


def given_machine(index: int, args: Mapping[str, Any]) -> Machine:
    """The machine that a program's arguments describe."""
    fields = {"host" if key == "address" else key: value for key, value in args.items() if value is not None}
    return Machine(index=index, id=f"{fields['host']}:{fields.get('port', 22)}", **fields)


def repairs(name: str, owner: str) -> int:
    """How often this stack's cluster was released or lost a node, by the ledger: what makes the steps run again."""
    entries = Ledger().entries(name)
    view = fold(entries)
    ended = sum(entry.type == Happened.RELEASED for entry in entries)
    return ended + (view.losses if view is not None and view.owner == owner and not view.over else 0)


def machines_document(spec: ClusterSpec, owner: str, given: list[Mapping[str, Any]] | None) -> str:
    """The machines step's input."""
    machines = tuple(given_machine(index, args) for index, args in enumerate(given or ()))
    job = MachinesJob(spec=spec, owner=owner, given=machines, repairs=repairs(spec.name, owner))
    return job.model_dump_json()


def step_document(spec: ClusterSpec, step: Step, owner: str, made: str) -> str:
    """The input of a step on the nodes, from the machines step's output."""
    machines = Made.model_validate_json(made)
    document = StepInput(spec=relevant(spec, step), made=machines, repairs=repairs(spec.name, owner))
    return document.model_dump_json()
