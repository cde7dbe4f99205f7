"""What this computer needs, what of it is there, and how to get the rest."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

from runcrate_iac.engine import gomodule, install, launchers
from runcrate_iac.engine.progress import watch
from runcrate_iac.errors import Failed, ToolMissing
from runcrate_iac.machines.local import tools
from runcrate_iac.model.base import Model
from runcrate_iac.model.progress import Report

_SSH = "ssh"
_PACKAGES = {**tools.PROGRAMS, _SSH: "openssh-client"}
"""Program: the Debian and Ubuntu package that has it."""
_PURPOSES = {
    tools.QEMU: "virtual machines on this computer",
    "qemu-img": "disks of virtual machines",
    "mmdebstrap": "building the images of machines, once",
    "mke2fs": "building the image of virtual machines, once",
    _SSH: "reaching the nodes",
}
_OF_A_USER = {"newuidmap": "building the image of virtual machines without being root"}
_OF_ROOT = {"systemd-nspawn": "container machines on this computer", "ip": "networks of container machines"}
_BREW = {tools.QEMU: "qemu", "qemu-img": "qemu", "mke2fs": "e2fsprogs", _SSH: "openssh"}
_SETUP = "runcrate-iac setup"
_INSTALL_SECONDS = 1800
_LOCK_SECONDS = 300
_SHOWN_WIDTH = 80


class Need(Model):
    """One thing that this computer needs."""

    name: str
    found: bool
    what_it_is_for: str
    how_to_get_it: str
    """A command, or a page to read; also where it is found already."""


def needs() -> list[Need]:
    """Everything that is needed, in the order in which it is used. Touches no network."""
    engine = install.find()
    standins = engine.standins if engine else ()
    found = [Need(name="Pulumi", found=engine is not None, what_it_is_for="declaring clusters", how_to_get_it=_SETUP)]
    for name, purpose in ((launchers.LANGUAGE, "running Python programs"), (launchers.COMMAND, "running steps")):
        label = f"{name} (stand-in)" if name in standins else name
        found.append(Need(name=label, found=engine is not None, what_it_is_for=purpose, how_to_get_it=_SETUP))
    if not engine:
        found.append(
            Need(
                name="Go",
                found=gomodule.find_go() is not None,
                what_it_is_for="building Pulumi, where its downloads are out of reach",
                how_to_get_it="https://go.dev/dl",
            )
        )
    found += [
        Need(name=name, found=_present(name), what_it_is_for=purpose, how_to_get_it=_how(name))
        for name, purpose in _purposes().items()
    ]
    return found


def missing_packages() -> list[str]:
    """The packages of this system that would bring the programs that are missing."""
    if _apt():
        return sorted({_PACKAGES[name] for name in _purposes() if not _present(name)})
    return []


def install_packages(report: Report) -> None:
    """Install what :func:`missing_packages` names; nothing where there is nothing to do.

    Raises :class:`ToolMissing` with the command to type where this user may not, :class:`Failed` with apt's last lines.
    """
    packages = missing_packages()
    if not packages:
        return
    prefix = _as_root()
    if prefix is None:
        raise ToolMissing(
            f"not allowed to install {', '.join(packages)}", shlex.join(["sudo", *_apt_install(packages)])
        )
    install_them = [*prefix, *_apt_install(packages)]
    title = f"installing {' '.join(packages)}"
    # A fresh system has empty package lists; on others the first try is enough and spares the update.
    if _run(install_them, title, report) is None:
        return
    _run([*prefix, "apt-get", f"-o=DPkg::Lock::Timeout={_LOCK_SECONDS}", "update"], "updating package lists", report)
    if (told := _run(install_them, title, report)) is not None:
        raise Failed(f"apt-get could not install {', '.join(packages)}:\n{told}", shlex.join(install_them))


def _purposes() -> dict[str, str]:
    """The programs and what they are for; containers need root, so nobody else is asked for their programs."""
    if os.geteuid():
        return _PURPOSES | _OF_A_USER
    return _PURPOSES | (_OF_ROOT if sys.platform == "linux" else {})


def _present(program: str) -> bool:
    return shutil.which(program, path=tools.search_path()) is not None


def _apt() -> bool:
    return shutil.which("apt-get") is not None


def _how(program: str) -> str:
    if _apt():
        return f"sudo apt-get install {_PACKAGES[program]}"
    if shutil.which("brew") and program in _BREW:
        return f"brew install {_BREW[program]}"
    return f"install {program} with this system's package manager"


def _as_root() -> list[str] | None:
    """What goes before a command to run it as root without a question; None where that is not to be had."""
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        return None
    asked = subprocess.run(["sudo", "-n", "true"], capture_output=True, timeout=30, check=False)
    return ["sudo", "-n"] if asked.returncode == 0 else None


def _apt_install(packages: list[str]) -> list[str]:
    return [
        "apt-get",
        "install",
        "--yes",
        "--no-install-recommends",
        f"-o=DPkg::Lock::Timeout={_LOCK_SECONDS}",
        *packages,
    ]


def _run(argv: list[str], title: str, report: Report) -> str | None:
    """Run apt-get; None where it did its work, else its last lines."""
    at = argv.index("apt-get")
    ended = watch(
        [*argv[:at], "env", "DEBIAN_FRONTEND=noninteractive", *argv[at:]],  # sudo drops variables
        title,
        report,
        seconds=_INSTALL_SECONDS,
        how_far=lambda line: line[:_SHOWN_WIDTH],
    )
    return ended.last_lines if ended.code else None
