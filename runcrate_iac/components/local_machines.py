"""Machines of this computer as a Pulumi component of their own, to give to a cluster."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pulumi

from runcrate_iac.components import documents
from runcrate_iac.components.args import Machine, MachineShape
from runcrate_iac.components.declared import refuse_twice
from runcrate_iac.components.step import command, owner


class LocalMachines(pulumi.ComponentResource):
    """Equal virtual machines on this computer, made and ended together; one source of machines among any."""

    machines: pulumi.Output[list[Machine]]
    """What :class:`~runcrate_iac.Cluster` takes as ``machines``."""

    def __init__(
        self,
        name: str,
        nodes: pulumi.Input[int] = 2,
        machine: pulumi.Input[MachineShape] | None = None,
        opts: pulumi.ResourceOptions | None = None,
        *,
        faults: pulumi.Input[Sequence[pulumi.Input[Mapping[str, Any]]]] | None = None,
    ) -> None:
        """Declare ``nodes`` machines of one shape; ``faults`` are those of a cluster, to rehearse them.

        Raises :class:`~runcrate_iac.errors.SpecError` where a field is wrong, before anything is created.
        """
        super().__init__("runcrate:index:LocalMachines", name, None, opts)
        declared: dict[str, Any] = {"nodes": nodes, "machine": machine, "faults": faults}
        document = pulumi.Output.from_input(declared).apply(partial(_document, name, owner()))
        options = pulumi.ResourceOptions(parent=self)
        made = command(
            f"{name}-pool",
            "runcrate_iac.machines.pool",
            "reserve",
            document,
            update="update",
            delete="release",
            opts=options,
        )
        self.machines = made.stdout.apply(json.loads)
        self.register_outputs({"machines": self.machines})


def _document(name: str, of: str, declared: Mapping[str, Any]) -> str:
    refuse_twice("LocalMachines", name)
    return documents.pool_of(name, of, declared)
