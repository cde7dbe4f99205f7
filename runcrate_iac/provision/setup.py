"""How the user's set-up script ended on a node, and what that means: pure (C9, F32)."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.spec import ClusterSpec

LOG = "/var/log/runcrate/setup.log"
"""What the script prints, on its node. Its older half is in ``setup.log.1``."""
LINES = 5
"""Lines of it that are told."""
_WIDTH = 160
"""Characters of a line that are told."""
_EXITED = "1"
"""CLD_EXITED, as systemd tells how a process ended (sigaction(2))."""
_KILLED = ("2", "3")
_FULL = 1 << 20
"""Bytes below which a disk is told to be full."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def ended(spec: ClusterSpec, node: str, lines: Sequence[str]) -> Condition:
    """The condition of a node, from the lines of ``setup/ended.sh.j2``."""
    if lines[:1] == ["done"]:
        return checked(spec, node, done=True)
    at = lines.index("log") if "log" in lines else len(lines)
    told = dict(line.partition("=")[::2] for line in lines[:at])
    reason, fact = _fact(told, spec.setup_timeout)
    said = [clean for line in lines[at + 1 :] if (clean := _ESCAPES.sub("", line).strip()[:_WIDTH])]
    return _condition(spec, node, reason, fact, log=tuple(said[-LINES:]), full=_full(told))


def checked(spec: ClusterSpec, node: str, *, done: bool) -> Condition:
    """The condition of a node on which the script has succeeded, or has not."""
    if not done:
        return _condition(spec, node, "NotDone", "has not succeeded")
    said = "the set-up script has succeeded"
    return Condition(type="SetUp", status=Status.TRUE, reason="Succeeded", message=said, node=node)


def _condition(
    spec: ClusterSpec, node: str, reason: str, fact: str, *, log: tuple[str, ...] = (), full: str = ""
) -> Condition:
    again = f"`runcrate-iac retry {spec.name}` or `pulumi up`"
    room = "make room there, or " if full else ""
    return Condition(
        type="SetUp",
        status=Status.FALSE,
        reason=reason,
        message=f"the set-up script {fact} on {node}{full}",
        remedy=f"{room}correct {spec.setup}, then {again}; all of its log is {LOG} there",
        node=node,
        log=log,
    )


def _fact(told: dict[str, str], limit: int) -> tuple[str, str]:
    """The reason and the fact, from the properties that systemd tells of the unit (org.freedesktop.systemd1(5))."""
    begun, over = (int(told.get(f"ExecMain{when}TimestampMonotonic") or 0) for when in ("Start", "Exit"))
    after = f"after {max(0, over - begun) / 1e6:.0f} s"
    code, status = told.get("ExecMainCode"), int(told.get("ExecMainStatus") or 0)
    if told.get("Result") == "timeout":
        return "OutOfTime", f"did not end in {limit} s and was killed"
    if code == _EXITED and status:
        return "Failed", f"ended with exit status {status} {after}"
    if code == _EXITED:
        return "NotNoted", f"succeeded {after}, but that could not be noted"
    if code in _KILLED:
        return "Killed", f"was killed by {_name(status)} {after}"
    return "NotRun", f"could not be run ({told.get('Result') or 'systemd says nothing of it'})"


def _full(told: dict[str, str]) -> str:
    """That the disk is full, if it is: by the bytes that are left (statfs(2)) where a success is noted."""
    if "LeftBlocks" not in told:
        return ""
    left = int(told["LeftBlocks"]) * int(told["BlockBytes"])
    return f", whose disk is full ({left // 1024} KiB left)" if left < _FULL else ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
