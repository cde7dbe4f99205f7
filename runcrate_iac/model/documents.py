"""What the steps' processes read and write: one JSON document each, never text to be parsed."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from runcrate_iac.model.base import Model
from runcrate_iac.model.money import Money
from runcrate_iac.model.network import Machine
from runcrate_iac.model.spec import ClusterSpec


class MachinesJob(Model):
    """The machines step's input."""

    spec: ClusterSpec
    owner: str
    """The Pulumi stack: ``organization/project/stack``. A name belongs to one stack at a time."""
    resource: str = ""
    """The URN of the cluster's resource in that stack: it has one cluster at a time."""
    given: tuple[Machine, ...] = ()
    """The machines, where the user's program made them."""
    repairs: int = 0
    """How often a cluster of this name was released, or a node of it found lost: one more, and the step runs again."""


class Made(Model):
    """The machines step's output: what the next steps need to know."""

    cluster_id: str
    resource: str = ""
    """The URN of the resource whose cluster it is."""
    deadline: datetime
    """When the cluster must have joined (C8)."""
    price_per_hour: Money
    """USD per hour of the whole cluster."""
    machines: tuple[Machine, ...]


class StepInput(Model):
    """What a step on the nodes needs: the fields of the spec that matter to it, and the machines."""

    spec: ClusterSpec
    made: Made
    repairs: int = 0
    """How often this step, or one before it, has to run again by what was found (see ``model.repair``)."""
    script: str | None = Field(default=None, repr=False)
    """The text of the user's set-up script, for that step; there may be secrets in it."""
    script_digest: str | None = None
    """SHA-256 of it: another script, and the cluster is checked again."""
