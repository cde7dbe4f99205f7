"""Facts about a cluster or a node beside its state: each has a type, a status and a required reason (X5)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from runcrate_iac.model.base import Model


class Status(StrEnum):
    """Whether the condition holds."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


class Condition(Model):
    """One fact: of a node where ``node`` is set, else of the whole cluster."""

    type: str
    """What it is about, UpperCamel: ``Joined``, ``SharedMounted``, ``SlurmIdle`` …"""
    status: Status
    reason: str
    """One UpperCamel word for programs: ``NoHandshake``, ``WrongGpuCount`` …"""
    message: str = ""
    """The fact for people: "7 of 8 GPUs on node-2"."""
    measured: str = ""
    """What was measured, in a word for a table's cell: "1420 bytes"."""
    remedy: str = ""
    """What to do about it."""
    node: str | None = None
    log: tuple[str, ...] = ()
    """The last lines that whatever failed has printed."""


def not_joined(node: str, reason: str, message: str, remedy: str) -> Condition:
    """Why a node is no part of the cluster: what ends the join (C8)."""
    return Condition(type="Joined", status=Status.FALSE, reason=reason, message=message, remedy=remedy, node=node)


def broken(conditions: Iterable[Condition]) -> list[Condition]:
    """Those that keep a cluster from being ready."""
    return [condition for condition in conditions if condition.status is not Status.TRUE]


def sentence(condition: Condition) -> str:
    """Node, fact and remedy on one line (X5)."""
    fact = condition.message or condition.reason
    where = f"{condition.node}: " if condition.node and condition.node not in fact else ""
    remedy = f" — remedy: {condition.remedy}" if condition.remedy else ""
    return f"{where}{fact}{remedy}"


LOGS_TOLD = 3
"""Nodes whose log lines are told with an error: more than that nobody reads, and they are often alike."""


def sentences(conditions: Iterable[Condition]) -> str:
    """Those that are broken, a sentence each, and under the first few what was printed last."""
    lines, logs = list[str](), 0
    for condition in broken(conditions):
        lines.append(sentence(condition))
        logs += bool(condition.log)
        if logs <= LOGS_TOLD:
            lines += [f"    {line}" for line in condition.log]
    return "\n".join(lines)
