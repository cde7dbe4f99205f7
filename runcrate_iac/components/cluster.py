"""The cluster as a Pulumi component: machines, join, storage, software, set-up script and check, a resource each."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pulumi
from typing_extensions import Unpack

from runcrate_iac.components import documents
from runcrate_iac.components.args import ClusterArgs
from runcrate_iac.components.declared import known, refuse_twice
from runcrate_iac.components.step import command, owner
from runcrate_iac.machines import lease
from runcrate_iac.model.offer import JOIN_SECONDS
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.paths import cluster_dir

NO_ARGS = ClusterArgs()
_ON_NODES = (Step.JOIN, Step.STORAGE, Step.SOFTWARE, Step.SETUP, Step.CHECK)


class Cluster(pulumi.ComponentResource):
    """2 to 64 equal machines that are created, connected and terminated as one thing (C1)."""

    cluster_id: pulumi.Output[str]
    """The mark that every machine of it carries."""
    machines: pulumi.Output[str]
    """The machines, as a JSON array: address, port, user and host key of each."""
    price_per_hour: pulumi.Output[str]
    """USD per hour of the whole cluster."""
    ssh_config: pulumi.Output[str]
    """Path of the ssh configuration: ``ssh -F PATH node-0``."""

    def __init__(
        self,
        name: str,
        args: ClusterArgs = NO_ARGS,
        opts: pulumi.ResourceOptions | None = None,
        **fields: Unpack[ClusterArgs],
    ) -> None:
        """Declare a cluster; its arguments as one dictionary, as keywords, or both.

        Raises :class:`~runcrate_iac.errors.SpecError` where a field is wrong, before anything is created.
        """
        super().__init__("runcrate:index:Cluster", name, None, opts)
        declared = {**args, **fields}
        # Its value alone: a child that depends on its parent is a cycle to Pulumi.
        urn: pulumi.Output[str | None] = pulumi.Output.from_input(self.urn.future())
        checked = pulumi.Output.all(known(declared), urn).apply(
            partial(_checked, name, owner(), given=declared.get("machines") is not None)
        )
        spec = pulumi.Output.all(declared, checked).apply(lambda got: documents.spec_of(name, got[0]))
        made = self._machines(name, declared, spec, urn)
        last: pulumi.Resource | None = None
        scripted = declared.get("setup") is not None
        for step in _ON_NODES:
            if step is Step.SETUP and not scripted:
                continue
            document = pulumi.Output.all(spec, made).apply(partial(_step_document, step, owner()))
            if step in documents.SCRIPTED and scripted:
                document = pulumi.Output.secret(document)
            depends = pulumi.ResourceOptions(parent=self, depends_on=[last] if last else None)
            # Machines of the program's own stay: destroying makes them what they were before the join.
            delete = "leave" if step is Step.JOIN and declared.get("machines") is not None else None
            last = command(f"{name}-{step}", "runcrate_iac.provision", step, document, delete=delete, opts=depends)
        facts = made.apply(json.loads)
        self.cluster_id = facts["cluster_id"]
        self.machines = facts.apply(lambda values: json.dumps(values["machines"]))
        self.price_per_hour = facts.apply(lambda values: str(values["price_per_hour"]["usd"]))
        self.ssh_config = spec.apply(lambda values: str(cluster_dir(values.name) / "ssh_config"))
        outputs = ("cluster_id", "machines", "price_per_hour", "ssh_config")
        self.register_outputs({key: getattr(self, key) for key in outputs})

    @staticmethod
    def user_data(index: int, join_timeout: int = JOIN_SECONDS) -> str:
        """Cloud-init user data for a cloud machine that your program makes and gives to a cluster as node ``index``.

        It arms the machine's lease (X2): ``join_timeout`` seconds after its first boot the machine powers itself off,
        unless the cluster has joined before (C8; the cluster's own ``join_timeout`` should be no longer). Whether a
        machine that is powered off is still billed is the cloud's affair: docs/join.md. The text is always the same.

        Raises :class:`~runcrate_iac.errors.SpecError` where the index is not 0 to 63 or the time is not positive.
        """
        return lease.user_data(index, join_timeout)

    def _machines(
        self,
        name: str,
        declared: Mapping[str, Any],
        spec: pulumi.Output[ClusterSpec],
        urn: pulumi.Output[str | None],
    ) -> pulumi.Output[str]:
        given = pulumi.Output.from_input(declared.get("machines"))
        document = pulumi.Output.all(spec, given, urn).apply(
            lambda got: documents.machines_document(got[0], owner(), got[1], got[2])
        )
        options = pulumi.ResourceOptions(parent=self)
        return command(
            f"{name}-machines",
            "runcrate_iac.machines",
            "reserve",
            document,
            update="update",
            delete="release",
            opts=options,
        ).stdout


def _checked(name: str, of: str, got: list[Any], *, given: bool) -> str:
    spec = documents.checked(name, got[0], of, got[1], given=given)
    refuse_twice("Cluster", spec.name)
    return spec.name


def _step_document(step: Step, of: str, known: list[Any]) -> str:
    spec, made = known
    return documents.step_document(spec, step, of, made)
