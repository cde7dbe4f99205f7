"""What a user declares: one model for the YAML file, the component's arguments and the Python call."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, ValidationError, ValidationInfo, field_validator

from runcrate_iac.errors import SpecError
from runcrate_iac.model.authority import certificate
from runcrate_iac.model.base import Count, Model, no_bool
from runcrate_iac.model.faults import KINDS, NO_KIND, Fault, checked
from runcrate_iac.model.keys import public_key
from runcrate_iac.model.versions import KUBERNETES, RAY

GIB = 1024**3
MOST_BYTES = 2**60
"""More memory or disk than any machine has, and still a number that everything can count with."""
MOST_NODES = 64
"""Machines of a cluster at most (C1)."""
_NAME = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"


def _countable(value: ByteSize) -> ByteSize:
    if value > MOST_BYTES:
        msg = "more than any machine has"
        raise ValueError(msg)
    return value


Size = Annotated[ByteSize, BeforeValidator(no_bool), AfterValidator(_countable)]
"""Bytes, as a number or with a unit: ``2GiB``."""


class Software(StrEnum):
    """What runs on the cluster once its machines are joined."""

    NONE = "none"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    RAY = "ray"


KUBERNETES_CPUS = 2
"""What kubeadm asks of a control plane."""
LEAST_MEMORY = {Software.KUBERNETES: 2 * GIB, Software.RAY: 2 * GIB}
"""Bytes. What kubeadm asks of a control plane, with what kernel and system keep for themselves; what the processes of a
Ray head and the system take without any work, 1.5 GiB as measured."""


class Kind(StrEnum):
    """The kind of machine (C3)."""

    VM = "vm"
    BARE_METAL = "bare_metal"
    CONTAINER = "container"


class MachineSpec(Model):
    """The shape that every machine of the cluster has (C1: all have the same GPUs)."""

    kind: Kind = Kind.VM
    gpu: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$")] = "H100"
    """The GPU's model, as offers name it."""
    gpus: Count = 8
    """GPUs per machine: 1, 2, 4 or 8."""
    cpus: Annotated[Count, Field(ge=1, le=256)] = 1
    """Virtual CPUs per machine; what a provider that makes its own machines uses."""
    memory: Size = ByteSize(GIB)
    """Memory per machine in bytes (``2GiB``); what a provider that makes its own machines uses."""
    disk: Size = ByteSize(8 * GIB)
    """Disk per machine in bytes; grows as it is written where the provider can do that."""
    image: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=4096)] | None = None
    """The path of a qcow2 image with cloud-init to start from, instead of the provider's own."""

    @field_validator("gpus")
    @classmethod
    def _sizes_offered(cls, value: int) -> int:
        if value not in (1, 2, 4, 8):
            msg = "machines have 1, 2, 4 or 8 GPUs (C3)"
            raise ValueError(msg)
        return value

    @field_validator("memory")
    @classmethod
    def _enough_memory(cls, value: ByteSize) -> ByteSize:
        if value < GIB // 2:
            msg = "a node needs at least 512MiB"
            raise ValueError(msg)
        return value

    @field_validator("disk")
    @classmethod
    def _enough_disk(cls, value: ByteSize) -> ByteSize:
        if value < 4 * GIB:
            msg = "a node needs at least 4GiB"
            raise ValueError(msg)
        return value


class ClusterSpec(Model):
    """A cluster as declared: 2 to 64 equal machines that live and end as one thing (C1)."""

    name: Annotated[str, Field(pattern=_NAME)]
    """Lower-case letters, digits and ``-``; starts with a letter; 40 characters at most."""
    nodes: Annotated[Count, Field(ge=2, le=MOST_NODES)] = 2
    software: Software = Software.NONE
    provider: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")] = "local"
    machine: Annotated[MachineSpec, Field(validate_default=True)] = MachineSpec()
    ssh_public_keys: tuple[Annotated[str, public_key], ...] = ()
    """OpenSSH public keys that may log in; empty means those of the user's own ssh."""
    notify: tuple[Annotated[str, Field(pattern=r"^[^@\s,<>]+@[^@\s,<>]+$", max_length=254)], ...] = ()
    """Email addresses that are told when the cluster is ready (C6)."""
    join_timeout: Annotated[Count, Field(ge=1, le=24 * 3600)] | None = None
    """Seconds from the reservation within which all nodes must reach all; default what the offer says (C8)."""
    artifacts: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=4096)] | None = None
    """The path of an artifact directory on this computer: what nodes would else download (docs/artifacts.md)."""
    ca_certificates: tuple[Annotated[str, certificate], ...] = ()
    """Certificates of authorities, as PEM texts, that the nodes trust beside those of their distribution."""
    setup: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=4096)] | None = None
    """The path of a script on this computer that runs as root on every node after the software (C9)."""
    setup_timeout: Annotated[Count, Field(ge=1, le=24 * 3600)] = 3600
    """Seconds that it may take on a node. The longest that users report are half of the default (F40)."""
    faults: tuple[Fault, ...] = ()
    """What the provider is made to do wrong, to rehearse it (X8)."""

    @property
    def bare(self) -> bool:
        """Nothing follows the join that a user waits for: ready at the common moment (C5)."""
        return self.software is Software.NONE and self.setup is None

    @field_validator("ssh_public_keys")
    @classmethod
    def _each_once(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        return tuple({key.split()[1]: key for key in keys}.values())

    @field_validator("machine")
    @classmethod
    def _fits_software(cls, machine: MachineSpec, info: ValidationInfo) -> MachineSpec:
        software = info.data.get("software", Software.NONE)
        if software is Software.KUBERNETES and machine.kind is Kind.CONTAINER:
            msg = (
                "kind: containers can't run `software: kubernetes`, whose kubelet needs a kernel of its own (C17);"
                " take `kind: vm` or `kind: bare_metal`"
            )
            raise ValueError(msg)
        if info.data.get("provider") == "given" or machine.kind is not Kind.VM:  # those are what they are
            return machine
        if software is Software.KUBERNETES and machine.cpus < KUBERNETES_CPUS:
            msg = f"cpus: `software: kubernetes` needs at least {KUBERNETES_CPUS} (given: {machine.cpus})"
            raise ValueError(msg)
        if machine.memory < LEAST_MEMORY.get(software, 0):
            msg = f"memory: `software: {software}` needs at least 2GiB (given: {machine.memory.human_readable()})"
            raise ValueError(msg)
        return machine

    @field_validator("faults")
    @classmethod
    def _faults_of_nodes(cls, value: tuple[Fault, ...], info: ValidationInfo) -> tuple[Fault, ...]:
        if "nodes" in info.data:
            checked(value, info.data["nodes"])
        return value


def parse(document: Any, source: str = "spec") -> ClusterSpec:
    """The spec in a document (a mapping read from YAML, JSON or a call).

    Raises :class:`SpecError` that names every wrong field, its value and what is allowed.
    """
    if not isinstance(document, dict):
        msg = f"{source}: must be a mapping of fields such as `name: demo`, not {type(document).__name__}"
        raise SpecError(msg)
    try:
        return ClusterSpec.model_validate(document)
    except ValidationError as error:
        raise SpecError("\n".join(f"{source}: {line}" for line in explain(error))) from None


def cluster_name(name: str) -> str:
    """The name, for what is called by a cluster's name and has no spec: it becomes a part of paths.

    Raises :class:`SpecError` where no cluster can be called so.
    """
    if not re.fullmatch(_NAME, name):
        raise SpecError(f"no cluster can be called {name!r:.60}", f"a name is {_ALLOWED['name']}")
    return name


def explain(error: ValidationError) -> list[str]:
    """One line per wrong field: its path, the fact, and what was given."""
    lines = []
    for item in error.errors(include_url=False):
        path, kind = _path(item["loc"])
        text = _ALLOWED.get(path, "") if item["type"] != "extra_forbidden" else _fields(path, kind)
        message = str(item["msg"]).removeprefix("Value error, ")
        given = item["input"]
        if item["type"] == NO_KIND:
            path, message, given = f"{path}.fault", "one of " + ", ".join(KINDS), given.get("fault")
        secret = path.startswith(("ssh_public_keys", "ca_certificates"))  # it may be a private key
        shown = "" if secret else _given(given)
        lines.append(f"{path}: {message}{shown}{'; ' + text if text else ''}")
    return lines


def _plain(part: str | int) -> str:
    """A field's name as it may be printed: what is no name is quoted, so that a line stays a line."""
    text = str(part)
    return text if re.fullmatch(r"[\w-]{1,60}", text) else f"{text!r:.60}"


def _given(value: Any) -> str:
    if not isinstance(value, str | int | float | None):
        return ""
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER:  # Python refuses to write long ones
        return " (given: a number of more than 300 digits)"
    return f" (given: {value!r:.60})"


_LONGEST_NUMBER = 1000
"""Bits."""
_VERSIONS = f"versions come with runcrate-iac: Kubernetes {KUBERNETES}, Ray {RAY}, Slurm of the nodes' distribution"
_ALLOWED = {
    "name": "lower-case letters, digits and '-', starting with a letter, 40 characters at most",
    "nodes": "a cluster has 2 to 64 machines",
    "software": f"one of {', '.join(Software)}; {_VERSIONS}",
    "machine.kind": "one of " + ", ".join(Kind),
}


def _path(loc: tuple[int | str, ...]) -> tuple[str, str | None]:
    """The field's path as it is written, without the kind of fault that pydantic puts into it, and that kind."""
    parts = [_plain(part) for part in loc]
    in_fault = parts[:1] == ["faults"] and len(parts) > 2 and parts[2] in KINDS  # noqa: PLR2004
    kind = parts.pop(2) if in_fault else None
    return ".".join(parts) or "(document)", kind


def _fields(path: str, kind: str | None) -> str:
    model = KINDS[kind] if kind else MachineSpec if path.startswith("machine.") else ClusterSpec
    return "the fields are " + ", ".join(model.model_fields) + (f"; {_VERSIONS}" if "version" in path else "")
