"""What ``doctor`` says is missing, and how ``setup`` gets it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runcrate_iac.engine import doctor
from runcrate_iac.errors import Failed, ToolMissing
from runcrate_iac.machines.local import tools


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer with nothing on PATH but what a test puts into this folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tools, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return tmp_path


def program(folder: Path, name: str, text: str = "") -> None:
    """Put a shell script on PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_what_is_missing_comes_with_purpose_and_way(bare: Path) -> None:
    """Each need names itself, what it is for and how to get it; Go is one only while there is no Pulumi."""
    program(bare, "apt-get")
    program(bare, "ssh")
    needs = {need.name: need for need in doctor.needs()}
    assert {name for name, need in needs.items() if need.found} - {"Go"} == {"ssh"}
    assert needs["Go"].what_it_is_for.startswith("building Pulumi")
    assert needs["Pulumi"].how_to_get_it == "runcrate-iac setup"
    assert needs["mmdebstrap"].how_to_get_it == "sudo apt-get install mmdebstrap"
    assert doctor.missing_packages() == ["e2fsprogs", "mmdebstrap", "qemu-system-x86", "qemu-utils", "uidmap"]


def test_root_is_asked_for_the_programs_of_containers(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers need root, so root alone is asked for their programs, and needs none for a user namespace."""
    program(bare, "apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert {"iproute2", "systemd-container"} <= set(doctor.missing_packages())
    assert "uidmap" not in doctor.missing_packages()


def test_a_mac_is_told_homebrew(bare: Path) -> None:
    """Without apt, Homebrew's name is told, and no package is installed by us."""
    program(bare, "brew")
    needs = {need.name: need for need in doctor.needs()}
    assert needs["qemu-img"].how_to_get_it == "brew install qemu"
    assert doctor.missing_packages() == []


def test_packages_are_installed_by_sudo_without_questions(bare: Path) -> None:
    """apt-get runs non-interactively and waits for its lock; its lines are progress."""
    for name in ("sudo", "env"):
        program(bare, name, 'if [ "$1" = -n ]; then shift; fi\nexec /usr/bin/env "$@"')
    program(bare, "true")
    program(bare, "apt-get", f'echo "$DEBIAN_FRONTEND $*" >> {bare}/log')
    doctor.install_packages(lambda _message, _node: None)
    (line,) = (bare / "log").read_text().splitlines()
    assert line.startswith("noninteractive install --yes --no-install-recommends -o=DPkg::Lock::Timeout=300 e2fsprogs")
    assert line.endswith("openssh-client qemu-system-x86 qemu-utils uidmap")


def test_empty_package_lists_are_updated_and_a_failure_is_shown(bare: Path) -> None:
    """Where the first try fails the lists are updated once; a second failure says what apt said."""
    for name in ("sudo", "env"):
        program(bare, name, 'if [ "$1" = -n ]; then shift; fi\nexec /usr/bin/env "$@"')
    program(bare, "true")
    program(bare, "apt-get", f'echo "$*" >> {bare}/log; echo "E: Unable to locate package"; exit 100')
    with pytest.raises(Failed, match="Unable to locate package"):
        doctor.install_packages(lambda _message, _node: None)
    assert [line.split()[0] for line in (bare / "log").read_text().splitlines()] == [
        "install",
        "-o=DPkg::Lock::Timeout=300",
        "install",
    ]


def test_who_may_not_install_gets_the_command_to_type(bare: Path) -> None:
    """Without root and without a sudo that asks nothing, the exact command is the remedy."""
    program(bare, "apt-get")
    program(bare, "sudo", "exit 1")
    with pytest.raises(ToolMissing) as refused:
        doctor.install_packages(lambda _message, _node: None)
    assert refused.value.remedy.startswith("sudo apt-get install --yes")
    assert "mmdebstrap" in refused.value.remedy
