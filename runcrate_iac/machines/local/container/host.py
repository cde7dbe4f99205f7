"""What container machines need of this computer, asked before anything is made."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from runcrate_iac.errors import SpecError, StepFailed
from runcrate_iac.machines.local import tools
from runcrate_iac.machines.local.capacity import Room, gib
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import MachineSpec
from runcrate_iac.paths import cache_dir, state_dir

MEMORY = 64 * 1024**2
"""Bytes that a node takes without any job; nothing of ``machine.memory`` is reserved."""
WRITTEN = 512 * 1024**2
"""Bytes that a node is expected to write."""
IMAGE = 2 * 1024**3
"""Bytes that building the image needs, once."""
MANY = 8
SYSCTL = Path("/proc/sys")
LIMITS = {
    "fs/inotify/max_user_instances": 8192,
    "net/ipv4/neigh/default/gc_thresh3": 16384,
    "net/ipv4/neigh/default/gc_thresh2": 8192,
}
"""Limits of the kernel that more than :data:`MANY` containers reach: all count together, each has a systemd, and the
nodes of a network know one another's hardware addresses."""


def check(machine: MachineSpec, nodes: int, free: Room) -> None:
    """Raise :class:`SpecError` that names the field, the fact and the remedy where there can be no such machines."""
    if machine.image:
        raise SpecError("machine.image: container machines start from an image of their own", "kind: vm")
    for fact, remedy in (
        (None if sys.platform == "linux" else f"need Linux, this is {sys.platform}", "kind: vm"),
        (None if os.geteuid() == 0 else "need root, which you are not", "sudo -E runcrate-iac …, or kind: vm"),
        (_missing_program(), "runcrate-iac setup, or kind: vm"),
        (None if _has_tun() else "need /dev/net/tun", "modprobe tun, or kind: vm"),
        (None if _has_cgroup2() else "need cgroup v2", "mount it at /sys/fs/cgroup (cgroups(7)), or kind: vm"),
    ):
        if fact:
            raise SpecError(f"machine.kind: container machines on this computer {fact}", remedy)
    _room(nodes, free)


def raise_limits(nodes: int, report: Report) -> None:
    """Raise the kernel's limits that so many containers would reach, and say so; they stay raised until a reboot.

    Raises :class:`StepFailed` that names the limit where it can't be raised. Those of the network are shown in the
    first network namespace only, in which a CI runner in a container is not: what is not there is passed over.
    """
    if nodes <= MANY:
        return
    for name, wanted in LIMITS.items():
        file = SYSCTL / name
        if not file.exists() or (now := int(file.read_text())) >= wanted:
            continue
        try:
            file.write_text(f"{wanted}\n")
        except OSError as error:
            setting = f"{name.replace('/', '.')}={wanted}"
            raise StepFailed(
                f"{nodes} container machines need {setting}, which is {now} here and can't be raised: {error.strerror}",
                f"sysctl -w {setting} where the kernel runs, or ask for {MANY} nodes or fewer",
            ) from error
        report(f"raised {name.replace('/', '.')} of this computer from {now} to {wanted}", None)


def _missing_program() -> str | None:
    missing = [name for name in tools.TO_CONTAIN if shutil.which(name, path=tools.search_path()) is None]
    return f"need {', '.join(missing)}" if missing else None


def _has_tun() -> bool:
    return Path("/dev/net/tun").exists()


def _has_cgroup2() -> bool:
    return any(line.split()[2] == "cgroup2" for line in Path("/proc/mounts").read_text().splitlines())


def _room(nodes: int, free: Room) -> None:
    image = 0 if any((cache_dir() / "images").glob("tree-*")) else IMAGE
    for field, need, there in (
        ("memory", nodes * MEMORY, free.memory),
        (f"disk of {state_dir()}", nodes * WRITTEN + image, free.disk),
    ):
        if need > there:
            raise SpecError(
                f"nodes: {nodes} container machines need {gib(need)} of {field}, {gib(there)} are free",
                "ask for fewer machines, or free some",
            )
