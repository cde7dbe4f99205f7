"""What deploys find out about nodes: conditions, collected for the outcome of the step."""

from __future__ import annotations

from collections.abc import Callable

from runcrate_iac.model.conditions import Condition

_found: list[Condition] = []
_listeners: list[Callable[[str, str], None]] = []


def found(condition: Condition) -> None:
    """Note ``condition``: it ends up in the step's outcome, and one that is not true makes the step fail."""
    _found.append(condition)


def collected() -> tuple[Condition, ...]:
    """Everything found in this process, in order."""
    return tuple(_found)


def waiting(node: str, what: str) -> None:
    """Tell what ``node`` waits for now, in the middle of an operation; it is the reason given if time runs out."""
    for listener in _listeners:
        listener(node, what)


def on_waiting(listener: Callable[[str, str], None]) -> None:
    """``listener`` hears what nodes wait for."""
    _listeners.append(listener)
