"""The components' arguments. TypedDicts, plain annotations: what Pulumi's schema analysis understands."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi


class Machine(TypedDict):
    """One machine that your program made by any Pulumi resource."""

    address: pulumi.Input[str]
    """Where SSH answers, as seen from the computer that runs Pulumi."""
    port: NotRequired[pulumi.Input[int]]
    """The SSH port; default 22."""
    user: NotRequired[pulumi.Input[str]]
    """The login user: root (default), or one with sudo and no password."""
    host_key: NotRequired[pulumi.Input[str]]
    """``type base64`` of its SSH host key; without it the key is pinned at first contact."""
    identity_file: NotRequired[pulumi.Input[str]]
    """Path of the private key that logs in; without it, what your own ssh would offer. One with a passphrase has to be
    in your ssh-agent."""
    endpoint: NotRequired[pulumi.Input[str]]
    """The address at which the other machines reach it; default ``address``."""
    gpus_simulated: NotRequired[pulumi.Input[bool]]
    """Its GPUs are simulated: schedulable, with no hardware behind them."""


class MachineShape(TypedDict):
    """The shape that every machine of a cluster has."""

    kind: NotRequired[pulumi.Input[str]]
    """``vm`` (default), ``bare_metal`` or ``container``."""
    gpu: NotRequired[pulumi.Input[str]]
    """The GPU's model, such as ``H100``."""
    gpus: NotRequired[pulumi.Input[int]]
    """GPUs per machine: 1, 2, 4 or 8."""
    cpus: NotRequired[pulumi.Input[int]]
    """Virtual CPUs per machine."""
    memory: NotRequired[pulumi.Input[str]]
    """Memory per machine, such as ``2GiB``."""
    disk: NotRequired[pulumi.Input[str]]
    """Disk per machine, such as ``8GiB``."""
    image: NotRequired[pulumi.Input[str]]
    """Path of a qcow2 image with cloud-init to start from."""


class ClusterArgs(TypedDict):
    """What a cluster is: the fields of the spec file, and machines of your own where you have them."""

    cluster_name: NotRequired[pulumi.Input[str]]
    """The cluster's name; default the resource's name. That of a cluster that is up can't be changed."""
    nodes: NotRequired[pulumi.Input[int]]
    """2 to 64; where ``machines`` are given, their number."""
    software: NotRequired[pulumi.Input[str]]
    """``slurm``, ``kubernetes``, ``ray`` or ``none`` (default)."""
    provider: NotRequired[pulumi.Input[str]]
    """Where the machines come from; default ``local``, this computer."""
    machine: NotRequired[pulumi.Input[MachineShape]]
    """The shape of every machine."""
    machines: NotRequired[pulumi.Input[Sequence[pulumi.Input[Machine]]]]
    """Machines of your own, instead of a provider's."""
    ssh_public_keys: NotRequired[pulumi.Input[Sequence[pulumi.Input[str]]]]
    """OpenSSH public keys that may log in; default those of your own ssh."""
    notify: NotRequired[pulumi.Input[Sequence[pulumi.Input[str]]]]
    """Email addresses that are told when the cluster is ready."""
    join_timeout: NotRequired[pulumi.Input[int]]
    """Seconds from the reservation within which all nodes must reach all; default 1500."""
    artifacts: NotRequired[pulumi.Input[str]]
    """Path of an artifact directory: what nodes would else download."""
    ca_certificates: NotRequired[pulumi.Input[Sequence[pulumi.Input[str]]]]
    """Certificates of authorities, as PEM texts, that the nodes trust beside those of their distribution."""
    setup: NotRequired[pulumi.Input[str]]
    """Path of a script on the computer that runs Pulumi; it runs as root on every node after the software."""
    setup_timeout: NotRequired[pulumi.Input[int]]
    """Seconds that the set-up script may take on a node; default 3600."""
    faults: NotRequired[pulumi.Input[Sequence[pulumi.Input[Mapping[str, Any]]]]]
    """What the provider is made to do wrong, to rehearse it: the list of the spec file's ``faults``."""
