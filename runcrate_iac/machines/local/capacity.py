"""Whether this computer has room for so many machines, asked before anything starts."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from runcrate_iac.errors import SpecError
from runcrate_iac.machines.local.command import CODE_CACHE
from runcrate_iac.model.spec import MachineSpec
from runcrate_iac.paths import cache_dir, state_dir

GIB = 1024**3
RESERVE = GIB // 2
"""Bytes of memory that stay for this computer itself."""
OVERHEAD = (CODE_CACHE + 64) * 1024**2
"""Bytes that QEMU takes beside the guest's memory."""
WRITTEN = 2 * GIB
"""Bytes that a node is expected to write: the disks are sparse, and a machine that finds the host's disk full
is paused by QEMU rather than harmed."""
CACHES = 5 * GIB
"""Bytes that building the golden image and its warm start needs at most, once."""


@dataclass(frozen=True)
class Room:
    """What is free now, in bytes."""

    memory: int
    disk: int


def room() -> Room:
    """What this computer has free."""
    return Room(psutil.virtual_memory().available, shutil.disk_usage(_existing(state_dir())).free)


def check(machine: MachineSpec, nodes: int, free: Room) -> None:
    """Raise :class:`SpecError` that names the field, what is asked and what is free, where it does not fit."""
    memory = nodes * (machine.memory + OVERHEAD) + RESERVE
    if memory > free.memory:
        raise SpecError(
            f"machine.memory: {nodes} machines of {gib(machine.memory)} need {gib(memory)} of memory, "
            f"{gib(free.memory)} are free on this computer",
            _fitting(free.memory - RESERVE, nodes),
        )
    caches = 0 if (cache_dir() / "warm").exists() else CACHES
    disk = nodes * min(machine.disk, WRITTEN) + caches
    if machine.disk > free.disk:
        raise SpecError(
            f"machine.disk: {gib(machine.disk)} are asked for each machine, {gib(free.disk)} are free in all "
            f"on the disk of {state_dir()}",
            "ask for a smaller disk: it could never be filled",
        )
    if disk > free.disk:
        raise SpecError(
            f"machine.disk: {nodes} machines need {gib(disk)} on the disk of {state_dir()}, {gib(free.disk)} are free",
            "free some, ask for fewer machines, or set RUNCRATE_IAC_HOME to a folder on a larger disk",
        )


def _fitting(memory: int, nodes: int) -> str:
    each = memory // nodes - OVERHEAD
    if each >= GIB // 2:
        return f"ask for fewer machines, or for memory: {each // 1024**2}MiB"
    return f"this computer has room for {max(0, memory // (GIB // 2 + OVERHEAD))} machines of 512MiB: ask for fewer"


def gib(size: int) -> str:
    """The size in GiB, for people."""
    return f"{size / GIB:.1f} GiB"


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
