"""What a step tells while it works, and how it ends: JSON lines, never text to be parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition


class Step(StrEnum):
    """The steps of a cluster, in order; each is a Pulumi resource."""

    MACHINES = "machines"
    JOIN = "join"
    STORAGE = "storage"
    SOFTWARE = "software"
    SETUP = "setup"
    """The user's own set-up script, where there is one."""
    CHECK = "check"


RELEASES = frozenset({Step.MACHINES, Step.JOIN})
"""A failure of these releases everything (C8); a failure of the others is degraded (C9)."""


class Mark(StrEnum):
    """What kind of news an event is."""

    STARTED = "started"
    PROGRESS = "progress"
    DONE = "done"
    FAILED = "failed"


class Event(Model):
    """One piece of news of a step."""

    time: datetime
    step: Step
    mark: Mark
    message: str
    node: str | None = None
    """The node it is about; None for the step as a whole."""


class Outcome(Model):
    """How a step ended."""

    step: Step
    ok: bool
    changed: bool = False
    """Something on a node was changed."""
    conditions: tuple[Condition, ...] = ()
    """What was found; where ``ok`` is false at least one is not true and names node, fact and remedy."""
    reached: bool = True
    """Every node was logged in to; where it was not, nothing was changed on any."""
    busy: Mapping[str, float] = Field(default_factory=dict)
    """Seconds that each node spent in its own commands: what they would cost by hand."""


Report = Callable[[str, str | None], None]
"""``report(message, node)``: how long-running functions tell what they are doing."""
