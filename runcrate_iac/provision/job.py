"""The worker's protocol: one JSON job on standard input, JSON events and one outcome on standard output."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Literal

from pydantic import Field

from runcrate_iac.model.base import Model
from runcrate_iac.model.network import NetworkPlan
from runcrate_iac.model.progress import Event, Outcome, Step
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision.membership import Membership


class Job(Model):
    """What the worker is to do. Secrets may be in it, so it travels on standard input only."""

    version: Literal[1] = 1
    step: Step
    cluster_id: str
    spec: ClusterSpec
    plan: NetworkPlan
    ssh_config: Path
    """The cluster's ssh_config: names every node, its port, user, key and known_hosts, host keys strict."""
    deadline: float
    """Seconds since the epoch after which the step is ended."""
    script: str | None = Field(default=None, repr=False)
    """The text of the user's set-up script, for that step."""
    new: tuple[int, ...] = ()
    """The nodes that are not part of the cluster yet, by index: all at its first join, later those that are added."""
    membership: Membership | None = None
    """The cluster as its machines know it, where they are to be asked."""
    absent: tuple[str, ...] = ()
    """Nodes whose machines are known to be dead: a check leaves them out."""
    arm: bool = False
    """The new machines have no lease of their own: the join arms one first, until this deadline (X2)."""


class Line(Model):
    """One line of the worker's standard output; exactly one field is set, the last line is the outcome."""

    event: Event | None = None
    outcome: Outcome | None = None


class Exit(IntEnum):
    """The worker's exit codes."""

    CONVERGED = 0
    JOB_REFUSED = 2
    NOT_CONNECTED = 3
    OPERATION_FAILED = 4
    BROKEN = 5
