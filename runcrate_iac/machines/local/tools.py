"""The programs that local machines need, and what to install where one is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable

from runcrate_iac.errors import ToolMissing

QEMU = "qemu-system-x86_64"

PROGRAMS = {
    QEMU: "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "newuidmap": "uidmap",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
}
"""Program: the Debian and Ubuntu package that has it."""

TO_RUN = (QEMU, "qemu-img")
TO_CONTAIN = ("systemd-nspawn", "ip", "mmdebstrap")
TO_BUILD = (*TO_RUN, "mmdebstrap", "mke2fs", *(("newuidmap",) if os.geteuid() else ()))
"""Without root the image is built in a user namespace, which newuidmap sets up."""


def require(programs: Iterable[str]) -> None:
    """Raise :class:`ToolMissing` with the packages to install where one of ``programs`` is not found."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise ToolMissing(
            f"local machines run on x86-64 computers, this one is {platform.machine()}",
            "take machines from another provider",
        )
    missing = [program for program in programs if shutil.which(program, path=search_path()) is None]
    if missing:
        packages = " ".join(PROGRAMS[program] for program in missing)
        raise ToolMissing(
            f"missing on this computer: {', '.join(missing)}",
            f"runcrate-iac setup (or: sudo apt-get install --no-install-recommends {packages})",
        )


def search_path() -> str:
    """PATH with the system folders, which a user's PATH often lacks and where mke2fs is."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def qemu_version() -> str:
    """The first line of ``qemu-system-x86_64 --version``; part of what a snapshot depends on."""
    shown = subprocess.run([QEMU, "--version"], check=True, capture_output=True, text=True)
    return shown.stdout.partition("\n")[0]
