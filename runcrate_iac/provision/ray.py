"""What Ray says of the nodes, and what that means: pure (C6, F22, X5)."""

from __future__ import annotations

from collections.abc import Sequence

from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.network import Node
from runcrate_iac.model.ray import UNIT

_LOG_LINES = 3
"""How much of a log a condition quotes, of at most so many characters each."""
_LINE = 200


def alive(nodes: Sequence[Node], lines: Sequence[str], gpus: int) -> list[Condition]:
    """One condition per node, from the lines of ``ray/nodes.py``; ``gpus`` are those declared.

    Just the head's where its dashboard gave no answer: nothing is known of the others then.
    """
    if error := next((line.removeprefix("error ") for line in lines if line.startswith("error ")), ""):
        remedy = "look at /tmp/ray/session_latest/logs there, dashboard.log and gcs_server.out first"
        return [_condition("RayAlive", nodes[0], "NoDashboard", error, remedy)]
    told = {words[1]: words[3] for line in lines if len(words := line.split()) == 4 and words[0] == "node"}  # noqa: PLR2004
    return [_alive(node, told.get(node.address), gpus) for node in nodes]


def _alive(node: Node, has: str | None, gpus: int) -> Condition:
    if has is None:
        remedy = f"look at `journalctl -u {UNIT}` and /tmp/ray/session_latest/logs there"
        return _condition("RayAlive", node, "NotAlive", f"Ray's cluster does not have {node.name}", remedy)
    if has != str(gpus):
        fact = f"Ray has {node.name} with {has} of {gpus} GPUs"
        return _condition("RayAlive", node, "WrongGpuCount", fact, f"restart {UNIT} there")
    return _condition("RayAlive", node, "Alive", f"Ray has {node.name} with {gpus} GPUs")


def tasks(nodes: Sequence[Node], lines: Sequence[str]) -> list[Condition]:
    """One condition per node: whether a task ran on it, from the lines of ``ray/tasks.py``."""
    told = [line.split(maxsplit=2) for line in lines]
    ran = {words[1] for words in told if words[:1] == ["task"]}
    failed = {words[1]: words[-1] for words in told if words[:1] == ["failed"]}
    other = [line for line in lines if not line.startswith(("node ", "task ", "failed "))]
    why = other[-1][:_LINE] if other and not ran else "it did not end in time"
    return [
        _condition("RayRunsTasks", node, "TaskRan", f"a task ran on {node.name}")
        if node.address in ran
        else _condition(
            "RayRunsTasks",
            node,
            "TaskFailed",
            f"no task ran on {node.name}: {failed.get(node.address, why)}",
            "look at /tmp/ray/session_latest/logs there, raylet.err first",
        )
        for node in nodes
    ]


def explained(fault: Condition, lines: Sequence[str]) -> Condition:
    """The fault with how its node's service is and the end of its log, from the lines of ``ray/log.sh.j2``."""
    state, *log = lines or ["unknown"]
    last = [text[:_LINE] for line in log if (text := line.strip())][-_LOG_LINES:]
    end = f", its log ends with: {' / '.join(last)}" if last else ""
    return fault.model_copy(update={"message": f"{fault.message}; {UNIT} is {state}{end}"})


def _condition(kind: str, node: Node, reason: str, message: str, remedy: str = "") -> Condition:
    """A condition with a remedy is not true."""
    status = Status.FALSE if remedy else Status.TRUE
    return Condition(type=kind, status=status, reason=reason, message=message, remedy=remedy, node=node.name)
