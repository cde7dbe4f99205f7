"""QEMU processes: started as daemons, found again by the mark on their command line, ended for certain."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import psutil

from runcrate_iac.machines.local.tools import QEMU

END_SECONDS = 5.0
LOG_LINES = 12
_ESCAPES = re.compile(r"\x1b(\[[0-9;?!]*[A-Za-z]|\][^\x07]*\x07)")
"""Control sequences of terminals (ECMA-48, CSI and OSC)."""


class NotStarted(Exception):
    """QEMU refused to start; the text is what it said."""


async def start(command: Sequence[str], folder: Path) -> None:
    """Run ``command`` in ``folder``; returns when the daemon has its sockets, raises :class:`NotStarted`."""
    begun = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    _, errors = await begun.communicate()
    if begun.returncode != 0:
        raise NotStarted(errors.decode(errors="replace").strip() or f"QEMU ended with {begun.returncode}")


def running(prefix: str) -> dict[str, psutil.Process]:
    """The machines of this user whose mark begins with ``prefix``, by their mark.

    The mark is the value of ``-name``, so a process that got the number of an ended one is not taken for it.
    """
    found = {}
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if words and Path(words[0]).name == QEMU and process.status() != psutil.STATUS_ZOMBIE:
                mark = words[words.index("-name") + 1].removeprefix("guest=")
                if mark.startswith(prefix):
                    found[mark] = process
        except (psutil.Error, ValueError, IndexError):
            continue
    return found


def end(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """End them (SIGTERM, then SIGKILL) and wait until they are gone; returns those that are still there."""
    left = list(processes)
    for signal in ("terminate", "kill"):
        for process in left:
            try:
                getattr(process, signal)()
            except psutil.NoSuchProcess:
                continue
        _, left = psutil.wait_procs(left, timeout=END_SECONDS)
    return left


def console_tail(log: Path) -> str:
    """The last lines of a console log, indented and without colours, for an error message."""
    lines = [line.rstrip() for line in _ESCAPES.sub("", console(log)).splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-LOG_LINES:]) or "  (the console is empty)"


def console(log: Path) -> str:
    """What the machine wrote on its console; nothing where it has none yet."""
    return log.read_text(errors="replace") if log.exists() else ""
