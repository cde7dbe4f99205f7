"""Waiting for a machine of this computer: until SSH greets, with news on the way and its console where it fails."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.local import process
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Report

TELL_EVERY = 10.0


async def greets(machine: Machine, seconds: float) -> bool:
    """Whether an SSH server greets at the machine's address within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(machine.host, machine.port)
            try:
                return (await reader.readline()).startswith(b"SSH-2.0")
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError):
        return False


async def said(error: Exception) -> str:
    """The error's own text; that of a program which failed is what it said."""
    if isinstance(error, subprocess.CalledProcessError):
        told = (error.stderr or b"").decode(errors="replace").strip()
        return f"{error.cmd[0]} ended with {error.returncode}" + (f": {told}" if told else "")
    return str(error)


@asynccontextmanager
async def failing_as(
    name: str,
    folder: Path,
    deadline: float,
    errors: tuple[type[Exception], ...] = (),
    fact: Callable[[Exception], Awaitable[str]] = said,
) -> AsyncIterator[None]:
    """Raise :class:`StepFailed` with the end of the machine's console where its start fails or is not over in time.

    ``deadline`` in seconds since the epoch; ``errors`` are those of its kind of machine, told by ``fact``.
    """
    seconds = max(0.0, deadline - time.time())
    kinds: tuple[type[Exception], ...] = (OSError, process.NotStarted, subprocess.CalledProcessError, *errors)
    try:
        async with asyncio.timeout(seconds):
            yield
    except kinds as error:
        late = isinstance(error, TimeoutError)
        told = f"SSH does not answer after {seconds:.0f} s" if late else await fact(error)
        tail = process.console_tail(folder / "console.log")
        raise StepFailed(
            f"machines: {name}: {told}; the last lines of its console:\n{tail}",
            f"the whole console is in {folder / 'console.log'} until the machine is released",
            name,
        ) from error


@asynccontextmanager
async def telling(name: str, report: Report) -> AsyncIterator[None]:
    """Report every few seconds that SSH is waited for, and for how long."""
    begun = time.monotonic()

    async def tell() -> None:
        while True:
            await asyncio.sleep(TELL_EVERY)
            report(f"waiting for SSH ({time.monotonic() - begun:.0f} s)", name)

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
