"""One node's machine: made, started again, or adopted, until SSH answers on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from qemu.qmp import QMPError

from runcrate_iac.machines.local import network, process, qmp, records
from runcrate_iac.machines.local.waiting import failing_as, greets, said, telling
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.progress import Report

PORT_TRIES = 5
BANNER_SECONDS = 5.0
POLL = 0.5
DYING_POLLS = 10
ENDED = "it powered off, or its QEMU ended"


class Source(Protocol):
    """What machines are made from."""

    async def make(self, index: int, request: Reservation) -> Machine:
        """A new machine with an identity of its own, its SSH host key known."""
        ...

    async def restart(self, known: Machine, request: Reservation) -> Machine:
        """The same machine, started from the disk it left; its SSH port may be another."""
        ...


async def bring_up(index: int, request: Reservation, source: Source, report: Report) -> Machine:
    """The machine of node ``index``, once SSH answers on it.

    Raises :class:`StepFailed` with the end of its console log as soon as it can't come up.
    """
    name, mark = node_name(index), records.mark(request.cluster_id, index)
    folder = records.folder(request.cluster_id, index)
    begun = time.monotonic()
    failing = failing_as(name, folder, request.deadline, (QMPError, EOFError, qmp.GuestFailed), partial(_fact, mark))
    async with failing, telling(name, report):
        found = process.running(mark).get(mark)
        known = records.load(folder)
        if known is None or known.host_key is None:
            process.end([found] if found else [])
            machine = await source.make(index, request)
        elif found is None:
            report("starting again from its disk", name)
            machine = await source.restart(known, request)
        else:
            machine = known
        await _answers(machine, mark)
    report(f"SSH answers on port {machine.port} ({time.monotonic() - begun:.1f} s)", name)
    return machine


async def start(folder: Path, words: Callable[[int], list[str]]) -> int:
    """Start QEMU by the command ``words(SSH port)`` and return the port.

    A port that is free now may be taken by the time QEMU binds it, so it is tried again.
    """
    for name in ("qmp.sock", "agent.sock"):
        (folder / name).unlink(missing_ok=True)
    tries = PORT_TRIES
    while True:
        port, tries = network.free_port(), tries - 1
        try:
            await process.start(words(port), folder)
        except process.NotStarted as error:
            if "host forwarding rule" in str(error) and tries:
                continue
            raise
        return port


async def _answers(machine: Machine, mark: str) -> None:
    """Return when an SSH server greets on the forwarded port; QEMU itself accepts before the guest does."""
    while not await greets(machine, BANNER_SECONDS):
        if mark not in process.running(mark):
            raise process.NotStarted(ENDED)
        await asyncio.sleep(POLL)


async def _ended(mark: str) -> bool:
    """Whether the machine's process ends: its sockets close a moment before it is gone."""
    for _ in range(DYING_POLLS):
        if mark not in process.running(mark):
            return True
        await asyncio.sleep(POLL)
    return False


async def _fact(mark: str, error: Exception) -> str:
    lost = isinstance(error, QMPError | EOFError) and await _ended(mark)
    return ENDED if lost else await said(error)
