"""Which steps a repair runs again: the one that mends what was found, and those after it (X5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runcrate_iac.model.conditions import Condition, broken
from runcrate_iac.model.progress import Step

_ORDER = list(Step)
_MENDS = {
    "Joined": Step.JOIN,
    "ReachesAll": Step.JOIN,
    "LargePacketsPass": Step.JOIN,
    "ClockAgrees": Step.JOIN,
    "NamesResolve": Step.JOIN,
    "GpusPresent": Step.STORAGE,
    "HostfileRight": Step.STORAGE,
    "SharedMounted": Step.STORAGE,
    "SharedWorks": Step.STORAGE,
    "SetUp": Step.SETUP,
    "Checked": Step.MACHINES,
    "Worker": Step.MACHINES,
}
"""By a condition's type, the step that mends it. `Checked` and `Worker` say that the check itself broke off, which a
machine that died does. What is not here is a software's own."""


def first_to_repeat(step: Step, conditions: Iterable[Condition]) -> Step:
    """The first step that has to run again after ``step`` failed with these findings: itself, or what a check names."""
    if step is not Step.CHECK:
        return step
    return min((_MENDS.get(c.type, Step.SOFTWARE) for c in broken(conditions)), key=_ORDER.index, default=Step.MACHINES)


def repeats(found: Mapping[Step, int], step: Step) -> int:
    """How often ``step`` was necessary again, by how often each step was the first of those."""
    return sum(times for first, times in found.items() if _ORDER.index(first) <= _ORDER.index(step))
