"""What Ray says of the nodes, and what that means: pure (C6, F22, X5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.network import Node
from runcrate_iac.model.ray import UNIT

_LOG_LINES = 3
"""How much of a log a condition quotes."""


def alive(nodes: Iterable[Node], lines: Sequence[str], gpus: int) -> list[Condition]:
    """One condition per node, from the lines of ``ray/nodes.py``; ``gpus`` are those declared."""
    told = dict(line.split()[1::2] for line in lines if line.startswith("node ") and len(line.split()) == 4)  # noqa: PLR2004
    error = next((line.removeprefix("error ") for line in lines if line.startswith("error ")), "")
    conditions = []
    for node in nodes:
        has = told.get(node.address)
        good = has == str(gpus)
        if has is None:
            reason, message = "NotAlive", error or f"Ray's cluster does not have {node.name}"
            remedy = f"look at `journalctl -u {UNIT}` and /tmp/ray/session_latest/logs there"
        else:
            reason = "Alive" if good else "WrongGpuCount"
            message = f"Ray has {node.name}, with {has} of {gpus} GPUs"
            remedy = "" if good else "run the software step again"
        status = Status.TRUE if good else Status.FALSE
        conditions.append(
            Condition(type="RayAlive", status=status, reason=reason, message=message, remedy=remedy, node=node.name)
        )
    return conditions


def tasks(nodes: Iterable[Node], lines: Sequence[str]) -> list[Condition]:
    """One condition per node: whether a task ran on it, from the lines of ``ray/tasks.py``."""
    ran = {line.split()[1] for line in lines if line.startswith("task ")}
    failed = {
        words[1]: " ".join(words[2:]) for line in lines if line.startswith("failed ") and len(words := line.split()) > 1
    }
    said = next((line for line in reversed(lines) if not line.startswith(("node ", "task ", "failed "))), "")
    conditions = []
    for node in nodes:
        good = node.address in ran
        why = failed.get(node.address) or said or "it did not end in time"
        conditions.append(
            Condition(
                type="RayRunsTasks",
                status=Status.TRUE if good else Status.FALSE,
                reason="TaskRan" if good else "TaskFailed",
                message=f"a task ran on {node.name}" if good else f"no task ran on {node.name}: {why}",
                remedy="" if good else "look at /tmp/ray/session_latest/logs there, raylet.err first",
                node=node.name,
            )
        )
    return conditions


def explained(fault: Condition, lines: Sequence[str]) -> Condition:
    """The fault with how its node's service is and the end of its log, from the lines of ``ray/log.sh.j2``."""
    state, *log = lines or ["unknown"]
    last = " / ".join(text for line in log if (text := line.strip()))[-600:] if state != "active" or log else ""
    end = " / ".join([line.strip() for line in log if line.strip()][-_LOG_LINES:])
    more = f"{UNIT} is {state}" + (f", its log ends with: {end}" if end and last else "")
    return fault.model_copy(update={"message": f"{fault.message}; {more}"})
