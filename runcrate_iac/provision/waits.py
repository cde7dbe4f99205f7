"""What each node is waiting for now: told every few seconds, and the answer to "why" when time runs out."""

from __future__ import annotations

import time
from collections.abc import Iterable

from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.progress import Step

OTHERS = "waiting for the other nodes"
"""What a node waits for that has done its own part; it is never the reason."""
TYPES = {
    Step.MACHINES: "MachinesUp",
    Step.JOIN: "Joined",
    Step.STORAGE: "StorageReady",
    Step.SOFTWARE: "SoftwareInstalled",
    Step.SETUP: "SetUp",
    Step.CHECK: "Checked",
}
"""The condition that each step is about."""


class Waits:
    """Per node, what it waits for and since when."""

    def __init__(self, step: Step, nodes: Iterable[str]) -> None:
        """Every node waits for its connection first."""
        self._step = step
        self._waits = {node: ("no SSH banner yet", time.monotonic()) for node in nodes}

    def set(self, node: str, what: str) -> bool:
        """``node`` now waits for ``what``; whether that is news."""
        if self._waits.get(node, ("", 0))[0] == what:
            return False
        self._waits[node] = (what, time.monotonic())
        return True

    def done(self, node: str) -> None:
        """``node`` waits for nothing any more."""
        self._waits.pop(node, None)

    def of(self, node: str) -> str:
        """What ``node`` waits for."""
        return self._waits.get(node, (OTHERS, 0.0))[0]

    def long(self, seconds: float) -> list[tuple[str, str]]:
        """(node, sentence) of those that have waited for the same thing at least so long."""
        now = time.monotonic()
        return [
            (node, f"{what} (for {now - since:.0f} s)")
            for node, (what, since) in self._waits.items()
            if now - since >= seconds
        ]

    def out_of_time(self) -> tuple[Condition, ...]:
        """One condition per node that still waits: what it waited for when the deadline came."""
        return tuple(
            Condition(
                type=TYPES[self._step],
                status=Status.FALSE,
                reason="OutOfTime",
                message=f"out of time: {what}",
                remedy="look at the machine's console log and the step's log; a longer time may help a slow machine",
                node=node,
            )
            for node, (what, _) in self._waits.items()
            if what != OTHERS
        )
