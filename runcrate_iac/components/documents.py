"""The documents that a cluster's steps read, as pure functions of the declared arguments."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any

from pydantic import Field, ValidationError

from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import fold
from runcrate_iac.machines import pool
from runcrate_iac.machines.given import refuse_misplaced
from runcrate_iac.machines.step import refuse_change, refuse_rename
from runcrate_iac.model.base import Count, Model
from runcrate_iac.model.documents import MachinesJob, Made, StepInput
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Step
from runcrate_iac.model.repair import repeats
from runcrate_iac.model.spec import ClusterSpec, Software, explain, parse
from runcrate_iac.specfile import absolute, script_of, with_user_keys

FIELDS = {
    Step.JOIN: {"name", "nodes", "ssh_public_keys", "provider", "machine", "software", "ca_certificates"},
    Step.STORAGE: {"name", "nodes", "machine"},
    Step.SOFTWARE: {"name", "nodes", "provider", "machine", "software", "artifacts"},
    Step.SETUP: {"name", "nodes", "machine", "setup", "setup_timeout"},
    Step.CHECK: {"name", "nodes", "provider", "machine", "software", "artifacts", "setup", "setup_timeout"},
}
"""The spec's fields that matter to a step on the nodes: a change of another one does not run it again. The check
has all that software and script have: where one of them runs again on a ready cluster, the check makes it ready."""

SCRIPTED = frozenset({Step.SETUP, Step.CHECK})
"""Steps whose document tells of the set-up script, and is a secret where there is one."""

_WORD = r"^[A-Za-z0-9._:%-]+$"
"""A host name or an address."""


def spec_of(name: str, args: Mapping[str, Any]) -> ClusterSpec:
    """The spec that a component's resolved arguments declare.

    Raises :class:`~runcrate_iac.errors.SpecError` that names every wrong field.
    """
    fields = {key: value for key, value in args.items() if key not in ("machines", "cluster_name")}
    fields["name"] = args.get("cluster_name") or name
    given = None
    if args.get("machines") is not None:
        given = given_machines(f"Cluster {name}", args["machines"])
        fields |= {"provider": "given", "nodes": fields.get("nodes", len(given))}
    for field in ("artifacts", "setup"):  # the steps run in folders of their own
        if isinstance(fields.get(field), str):
            fields[field] = absolute(fields[field])
    spec = with_user_keys(parse(fields, source=f"Cluster {name}"))
    if given is not None and len(given) != spec.nodes:
        raise SpecError(
            f"Cluster {name}: nodes: {spec.nodes} are declared, and there are {len(given)} in `machines`",
            "leave `nodes` out: `machines` says how many there are",
        )
    script_of(spec)
    return spec


def checked(name: str, args: Mapping[str, Any], owner: str, resource: str | None, *, given: bool) -> ClusterSpec:
    """The spec of arguments that a preview knows: ``given`` machines without addresses, or none before they are made.

    Raises :class:`~runcrate_iac.errors.SpecError` that names every wrong field; :class:`~runcrate_iac.errors.Refused`
    where the running cluster of that name is another stack's, or can't become this one.
    """
    ledger = Ledger()
    view = ledger.current(str(args.get("cluster_name") or name))
    if given and "machines" not in args:
        args = {"nodes": view.spec.nodes if view else 2, **args, "provider": "given"}
    spec = spec_of(name, args)
    if view is not None:
        refuse_change(view, spec, owner)
    else:
        refuse_rename(MachinesJob(spec=spec, owner=owner, resource=resource or ""), ledger)
    return spec


def pool_of(name: str, owner: str, args: Mapping[str, Any]) -> str:
    """The document of a pool of machines that are given to a cluster later.

    Raises :class:`~runcrate_iac.errors.Refused` where the stack has more machines of it: in a preview too.
    """
    spec = parse({key: value for key, value in args.items() if value is not None} | {"name": name}, f"pool {name}")
    job = MachinesJob(spec=spec, owner=owner)
    pool.refuse_shrinking(job)
    return job.model_copy(update={"repairs": pool.repairs(job)}).model_dump_json()


def relevant(spec: ClusterSpec, step: Step) -> ClusterSpec:
    """The spec with every field that does not matter to this step at its default."""
    fields = {field: getattr(spec, field) for field in FIELDS[step]}
    if step is Step.JOIN and spec.software is not Software.KUBERNETES:
        fields["software"] = Software.NONE  # of all software, only pods are part of the network
    return ClusterSpec(**fields)


class GivenMachine(Model):
    """A machine of the user's own, as :class:`~runcrate_iac.components.args.Machine` declares it."""

    address: Annotated[str, Field(pattern=_WORD)]
    port: Annotated[Count, Field(ge=1, le=65535)] = 22
    user: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=32)] = "root"
    host_key: Annotated[str, Field(pattern=r"^[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [^\x00-\x1f]*)?$")] | None = None
    identity_file: Annotated[str, Field(pattern=r"^[^\x00-\x1f]+$")] | None = None
    endpoint: Annotated[str, Field(pattern=_WORD)] | None = None
    gpus_simulated: bool = False


def given_machines(source: str, given: Any) -> tuple[Machine, ...]:
    """The machines that a program's arguments describe.

    Raises :class:`SpecError` that names every wrong field.
    """
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise SpecError(f"{source}: machines: must be a list of machines, each with an `address`")
    return tuple(_given_machine(f"{source}: machines.{index}", index, args) for index, args in enumerate(given))


def _given_machine(source: str, index: int, args: Any) -> Machine:
    if not isinstance(args, Mapping):
        raise SpecError(f"{source}: must be a mapping of fields such as `address: 192.0.2.1`")
    try:
        one = GivenMachine.model_validate({key: value for key, value in args.items() if value is not None})
    except ValidationError as error:
        raise SpecError("\n".join(f"{source}.{line}" for line in explain(error))) from None
    fields = one.model_dump(exclude={"address"})
    return Machine(index=index, id=f"{one.address}:{one.port}", host=one.address, **fields)


def repairs(name: str, owner: str, step: Step) -> int:
    """How often this stack's cluster was released, or found in need of this step: one more, and it runs again.

    What a killed command left is a need of the machines step, whatever Pulumi knows of it: workers that were being
    added, machines that did not join in time.
    """
    ledger = Ledger()
    entries = ledger.entries(name)
    view = fold(entries)
    ended = sum(entry.type == Happened.RELEASED for entry in entries)
    if view is None or view.owner != owner or view.over:
        return ended
    pending = step is Step.MACHINES and (view.growth is not None or view.missed(ledger.now()))
    return ended + view.losses + repeats(view.repeats, step) + pending


def machines_document(
    spec: ClusterSpec, owner: str, given: list[Mapping[str, Any]] | None, resource: str | None = None
) -> str:
    """The machines step's input; ``resource`` is the URN of the cluster's.

    Raises :class:`~runcrate_iac.errors.Refused` where a machine is not in its place.
    """
    machines = given_machines(f"Cluster {spec.name}", given or ())
    refuse_misplaced(spec.name, machines, Ledger())
    job = MachinesJob(
        spec=spec,
        owner=owner,
        resource=resource or "",
        given=machines,
        repairs=repairs(spec.name, owner, Step.MACHINES),
    )
    return job.model_dump_json()


def step_document(spec: ClusterSpec, step: Step, owner: str, made: str) -> str:
    """The input of a step on the nodes, from the machines step's output."""
    script = script_of(spec) if step in SCRIPTED else None
    document = StepInput(
        spec=relevant(spec, step),
        made=Made.model_validate_json(made),
        repairs=repairs(spec.name, owner, step),
        script=script if step is Step.SETUP else None,
        script_digest=sha256(script.encode()).hexdigest() if script else None,
    )
    return document.model_dump_json()
