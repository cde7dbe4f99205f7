"""One node's machine: a clone of the warm snapshot, or its own disk started again."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qemu.qmp import QMPError

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.local import identity, network, process, qmp, records
from runcrate_iac.machines.local.command import Memory, Shape, command
from runcrate_iac.machines.local.image import Image
from runcrate_iac.machines.local.warm import Warm, create_overlay
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import private_dir

PORT_TRIES = 5
BANNER_SECONDS = 5.0
POLL = 0.2


@dataclass(frozen=True)
class Source:
    """What the machines of one cluster start from."""

    image: Image
    warm: Warm
    shape: Shape


async def bring_up(index: int, request: Reservation, source: Source, report: Report) -> Machine:
    """The machine of node ``index``, made, started again or adopted, once SSH answers on it.

    Raises :class:`StepFailed` with the end of its console log as soon as it can't come up.
    """
    name, folder = node_name(index), records.folder(request.cluster_id, index)
    begun = time.monotonic()
    async with _failing_as(name, folder, request.deadline):
        mark = records.mark(request.cluster_id, index)
        found = process.running(mark).get(mark)
        known = records.load(folder)
        if known is None or known.host_key is None:
            process.end([found] if found else [])
            machine = await _clone(index, request, source)
        elif found is None:
            report("starting again from its disk", name)
            machine = await _restart(known, request, source)
        else:
            machine = known
        await _answers(machine, mark)
    report(f"SSH answers on port {machine.port} ({time.monotonic() - begun:.1f} s)", name)
    return machine


async def _clone(index: int, request: Reservation, source: Source) -> Machine:
    folder = records.folder(request.cluster_id, index)
    shutil.rmtree(folder, ignore_errors=True)
    private_dir(folder)
    create_overlay(folder / "disk.qcow2", source.warm.disk)
    memory = Memory(source.warm.memory, shared=False)
    port = await _start(index, request.cluster_id, source, memory=memory, incoming=True)
    machine = records.machine(request, index, port)
    records.save(folder, machine)
    async with qmp.monitor(folder) as monitor:
        await qmp.load_state(monitor, source.warm.state)
        card = {
            "driver": "virtio-net-pci",
            "netdev": "lan",
            "id": "lan-card",
            "mac": network.lan_mac(index),
            "romfile": "",
        }
        await monitor.execute("device_add", card)
    machine = machine.model_copy(update={"host_key": await identity.give(folder, index, request)})
    records.save(folder, machine)
    return machine


async def _restart(known: Machine, request: Reservation, source: Source) -> Machine:
    port = await _start(known.index, request.cluster_id, source, lan_mac=network.lan_mac(known.index))
    machine = known.model_copy(update={"port": port})
    records.save(records.folder(request.cluster_id, known.index), machine)
    return machine


async def _start(index: int, cluster_id: str, source: Source, **options: Any) -> int:
    """Start QEMU and return its SSH port: another process may take a free port first, so it is tried again."""
    folder, mark = records.folder(cluster_id, index), records.mark(cluster_id, index)
    for socket in folder.glob("*.sock"):
        socket.unlink()
    tries = PORT_TRIES
    while True:
        port, tries = network.free_port(), tries - 1
        lan = network.lan_group(cluster_id)
        words = command(source.shape, source.image, folder, mark, ssh_port=port, lan=lan, **options)
        try:
            await process.start(words, folder)
        except process.NotStarted as error:
            if "host forwarding rule" in str(error) and tries:
                continue
            raise
        return port


async def _answers(machine: Machine, mark: str) -> None:
    """Return when an SSH server greets on the forwarded port; QEMU itself accepts before the guest does."""
    while True:
        try:
            async with asyncio.timeout(BANNER_SECONDS):
                reader, writer = await asyncio.open_connection(machine.host, machine.port)
                greeting = await reader.readline()
                writer.close()
        except (OSError, TimeoutError):
            greeting = b""
        if greeting.startswith(b"SSH-2.0"):
            return
        if mark not in process.running(mark):
            raise process.NotStarted("the machine powered off or its QEMU ended")
        await asyncio.sleep(POLL)


@asynccontextmanager
async def _failing_as(name: str, folder: Path, deadline: float) -> AsyncIterator[None]:
    seconds = max(0.0, deadline - time.time())
    try:
        async with asyncio.timeout(seconds):
            yield
    except (TimeoutError, QMPError, EOFError, OSError, qmp.GuestFailed, process.NotStarted) as error:
        fact = f"no SSH within {seconds:.0f} s" if isinstance(error, TimeoutError) else str(error)
        tail = process.console_tail(folder / "console.log")
        raise StepFailed(
            f"machines: {name}: {fact}; its console's last lines:\n{tail}",
            f"the whole console is in {folder / 'console.log'} until it is released",
        ) from error
