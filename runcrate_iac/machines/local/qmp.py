"""Talking to QEMU (monitor) and to the guest (agent) over their sockets."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from qemu.qmp import ExecuteError, QMPClient, QMPError

POLL = 0.05
UNPLUG_SECONDS = 60.0
GUEST_POLL = 0.3
"""Seconds between questions to the guest, each of which takes time from what it is to do."""


class GuestFailed(Exception):
    """A script in the guest ended with another code than 0; the text is what it wrote."""


@asynccontextmanager
async def monitor(folder: Path) -> AsyncIterator[QMPClient]:
    """The monitor of the machine in ``folder``."""
    async with _connected(QMPClient(), folder / "qmp.sock") as client:
        yield client


@asynccontextmanager
async def agent(folder: Path) -> AsyncIterator[QMPClient]:
    """The guest agent of the machine in ``folder``; answers as soon as the guest runs it."""
    client = QMPClient()
    client.await_greeting = client.negotiate = False
    async with _connected(client, folder / "agent.sock") as ready:
        await ready.execute("guest-ping")
        yield ready


async def run_script(client: QMPClient, script: str) -> str:
    """What ``script`` printed, run by ``sh -eu`` as root in the guest.

    Raises :class:`GuestFailed`, or :class:`qemu.qmp.QMPError` where the machine is gone.
    """
    arguments = {"path": "/bin/sh", "arg": ["-eu"], "input-data": _encoded(script), "capture-output": True}
    started: Any = await client.execute("guest-exec", arguments)
    while True:
        status: Any = await client.execute("guest-exec-status", {"pid": started["pid"]})
        if status["exited"]:
            break
        await asyncio.sleep(GUEST_POLL)
    output, errors = _decoded(status.get("out-data", "")), _decoded(status.get("err-data", ""))
    if status.get("exitcode") != 0:
        raise GuestFailed((errors + output).strip() or f"ended with {status.get('exitcode', 'a signal')}")
    return output


async def save_state(client: QMPClient, file: Path) -> None:
    """Stop the machine and write its state, without the memory that a file holds already."""
    await client.execute("stop")
    await _leave_memory_in_its_file(client)
    await client.execute("migrate", {"uri": f"exec:cat > '{file}'"})
    await _migrated(client)


async def load_state(client: QMPClient, file: Path) -> None:
    """Continue a machine, started with ``-incoming defer``, from the state in ``file``."""
    await _leave_memory_in_its_file(client)
    await client.execute("migrate-incoming", {"uri": f"exec:cat '{file}'"})
    await _migrated(client)
    await client.execute("cont")


async def plug_card(client: QMPClient, netdev: str, mac: str) -> None:
    """Plug a network card into the running machine."""
    card = {"driver": "virtio-net-pci", "id": f"{netdev}-card", "netdev": netdev, "mac": mac, "romfile": ""}
    await client.execute("device_add", card)


@asynccontextmanager
async def plugged_disk(client: QMPClient, file: Path, name: str) -> AsyncIterator[None]:
    """``file`` as a read-only disk of the running machine, ``/dev/disk/by-id/virtio-<name>`` there, for a time.

    Raises :class:`TimeoutError` where the guest does not let go of it afterwards.
    """
    content = {"driver": "file", "filename": str(file)}
    await client.execute("blockdev-add", {"driver": "raw", "node-name": name, "read-only": True, "file": content})
    card = {"driver": "virtio-blk-pci", "id": f"{name}-disk", "drive": name, "serial": name}
    await client.execute("device_add", card)
    yield
    await client.execute("device_del", {"id": f"{name}-disk"})
    async with asyncio.timeout(UNPLUG_SECONDS):
        while not await _let_go(client, name):  # noqa: ASYNC110 - the event is the guest's
            await asyncio.sleep(POLL)


async def _let_go(client: QMPClient, name: str) -> bool:
    try:
        await client.execute("blockdev-del", {"node-name": name})
    except ExecuteError:  # it is in use until the guest has agreed
        return False
    return True


async def _leave_memory_in_its_file(client: QMPClient) -> None:
    capability = {"capability": "x-ignore-shared", "state": True}
    await client.execute("migrate-set-capabilities", {"capabilities": [capability]})


async def _migrated(client: QMPClient) -> None:
    while True:
        answer: Any = await client.execute("query-migrate")
        if answer.get("status") == "completed":
            return
        if answer.get("status") == "failed":
            raise QMPError(f"the state was not carried over: {answer.get('error-desc', 'no reason given')}")
        await asyncio.sleep(POLL)


@asynccontextmanager
async def _connected(client: QMPClient, path: Path) -> AsyncIterator[QMPClient]:
    with _short(path) as short:
        await client.connect(str(short))
    try:
        yield client
    finally:
        # reports once more what broke the connection, which every pending call has raised already
        with suppress(QMPError, EOFError, OSError):
            await client.disconnect()


@contextmanager
def _short(path: Path) -> Iterator[Path]:
    """``path`` under a name that fits into a socket address (107 characters, unix(7))."""
    with tempfile.TemporaryDirectory(prefix="rc-", dir="/tmp") as folder:
        link = Path(folder) / "s"
        link.symlink_to(path.parent)
        yield link / path.name


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode(errors="replace")
