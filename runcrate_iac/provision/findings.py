"""What deploys find out about nodes: conditions, collected for the outcome of the step."""

from __future__ import annotations

from runcrate_iac.model.conditions import Condition

_found: list[Condition] = []


def found(condition: Condition) -> None:
    """Note ``condition``: it ends up in the step's outcome, and one that is not true makes the step fail."""
    _found.append(condition)


def collected() -> tuple[Condition, ...]:
    """Everything found in this process, in order."""
    return tuple(_found)
