"""Asking a node again until all is well, at a pace that leaves it its processor."""

from __future__ import annotations

import time
from collections.abc import Callable

from runcrate_iac.model.conditions import Condition, broken
from runcrate_iac.provision.findings import waiting

PAUSE = 2.0
"""Seconds from one question to the next, at least."""


def until_well(node: str, ask: Callable[[], list[Condition]], patience: float) -> list[Condition]:
    """The conditions that ``ask`` finds once none is broken, or those it finds after ``patience`` seconds.

    Meanwhile ``node`` is told to wait for what the first broken one says. ``ask`` may itself wait on the node for what
    it asks about; where it comes back at once, with whatever answer, the next question is put off.
    """
    until = time.monotonic() + patience
    while True:
        begun = time.monotonic()
        conditions = ask()
        faults = broken(conditions)
        if not faults or time.monotonic() > until:
            return conditions
        waiting(node, faults[0].message)
        time.sleep(max(0.0, begun + PAUSE - time.monotonic()))
