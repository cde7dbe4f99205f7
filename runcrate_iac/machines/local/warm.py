"""The warm snapshot: a machine that has booted, frozen, from which clones go on in a fraction of a second.

The disk is the base of each clone's overlay, the memory a file that each clone maps privately: what it only reads
it shares with the others, and nothing is copied.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from qemu.qmp import QMPError

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.local import process, qmp, tools
from runcrate_iac.machines.local.cache import made_once, needed_by
from runcrate_iac.machines.local.command import Memory, Shape, command, devices, direct_boot, kernel_arguments
from runcrate_iac.machines.local.image import Image
from runcrate_iac.machines.local.preload import Load
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import cache_dir

LIMIT = 600.0
"""Seconds that the one boot may take."""
LOAD_LIMIT = 1800.0
"""Seconds for what is brought into it, where anything is."""
_DISK = "preload"
"""The disk that brings it, as guest/preload.sh knows it."""
TELL_EVERY = 5.0
_SCRIPT = Path(__file__).parent / "guest" / "warm.sh"


@dataclass(frozen=True)
class Warm:
    """A snapshot's files; read only."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The disk as it was then."""
        return self.folder / "disk.qcow2"

    @property
    def memory(self) -> Path:
        """The memory."""
        return self.folder / "memory"

    @property
    def state(self) -> Path:
        """The state of CPU and devices."""
        return self.folder / "state"


def key(image: Image, shape: Shape, disk: int, load: Load | None, host: tuple[str, str]) -> str:
    """The snapshot's name: a digest of all that the frozen machine depends on; ``host`` is QEMU and CPU."""
    inputs = [image.key, devices(shape), kernel_arguments(shape), disk, *host, _SCRIPT.read_text()]
    inputs += load.key if load else []
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]


def snapshot(image: Image, shape: Shape, disk: int, load: Load | None, report: Report) -> Warm:
    """The warm snapshot of such a machine with a disk of ``disk`` bytes and ``load`` on it; made where there is none.

    Raises :class:`StepFailed` with the end of the console log where the machine does not come up.
    """
    cpu = "" if shape.accelerator == "tcg" else _host_cpu()
    name = key(image, shape, disk, load, (tools.qemu_version(), cpu))
    folder = cache_dir() / "warm" / name
    made_once(
        folder,
        lambda part: asyncio.run(_freeze(part, f"warm-{name}", image, shape, disk=disk, load=load, report=report)),
        "warm start",
        report,
    )
    needed_by(image.folder, folder)
    return Warm(folder)


def create_overlay(disk: Path, base: Path, size: int | None = None) -> None:
    """A qcow2 of ``size`` bytes (the base's, if None) that holds only what differs from ``base``."""
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), str(disk)]
    subprocess.run([*command, str(size)] if size else command, check=True, capture_output=True)


async def _freeze(
    part: Path, mark: str, image: Image, shape: Shape, *, disk: int, load: Load | None, report: Report
) -> None:
    process.end(list(process.running(mark).values()))
    create_overlay(part / "disk.qcow2", image.disk, disk)
    memory = Memory(part / "memory", shared=True)
    limit = LIMIT + (LOAD_LIMIT if load else 0)
    doing = f"bringing {load.what} into the image once" if load else "booting the image once"
    try:
        async with asyncio.timeout(limit), _telling(doing, report):
            await process.start(command(shape, direct_boot(shape, image), part, mark, memory=memory), part)
            if load:
                await _bring(load, part)
            async with qmp.agent(part) as agent:
                await qmp.run_script(agent, _SCRIPT.read_text())
            async with qmp.monitor(part) as monitor:
                await qmp.save_state(monitor, part / "state")
    except (TimeoutError, QMPError, qmp.GuestFailed, process.NotStarted) as error:
        reason = str(error) or f"not ready after {limit:.0f} s"
        tail = process.console_tail(part / "console.log")
        raise StepFailed(
            f"warm start: {reason}; the console's last lines:\n{tail}", "try again, or report it"
        ) from error
    finally:
        process.end(list(process.running(mark).values()))


async def _bring(load: Load, part: Path) -> None:
    archive = part / f"{_DISK}.tar"
    await asyncio.to_thread(load.write, archive)
    async with qmp.monitor(part) as monitor, qmp.agent(part) as agent, qmp.plugged_disk(monitor, archive, _DISK):
        await qmp.run_script(agent, load.script)
    archive.unlink()


@asynccontextmanager
async def _telling(doing: str, report: Report) -> AsyncIterator[None]:
    begun = time.monotonic()

    async def tell() -> None:
        while True:
            report(f"warm start: {doing}, to start from there ({time.monotonic() - begun:.0f} s)", None)
            await asyncio.sleep(TELL_EVERY)

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


def _host_cpu() -> str:
    """The host CPU's flags, which a guest under ``-cpu host`` has seen."""
    lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    return "".join(sorted({line for line in lines if line.startswith(("flags", "model name"))}))
