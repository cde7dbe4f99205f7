"""The lease that cloud-init arms: what user data say."""

from __future__ import annotations

import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcrate_iac import Cluster
from runcrate_iac.errors import SpecError
from runcrate_iac.machines import lease
from runcrate_iac.machines.local import cloud_image
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.spec import MachineSpec


def told(text: str) -> dict[str, Any]:
    """What cloud-init reads."""
    assert text.startswith("#cloud-config\n")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def test_user_data_install_and_arm_the_lease() -> None:
    """Every unit of the lease is written, and the timer starts at the first boot, with the node's name (X2, F1)."""
    document = told(Cluster.user_data(1))
    assert [file["path"].rpartition("/")[2] for file in document["write_files"]] == [unit.name for unit in lease.UNITS]
    assert all(file["content"].startswith("[Unit]\n") for file in document["write_files"])
    assert document["hostname"] == "node-1"
    ((shell, option, script),) = document["runcmd"]
    assert (shell, option) == ("sh", "-c")
    assert "+ 1500))" in script
    assert script.endswith(f"systemctl enable --now {lease.TIMER}")


def test_user_data_are_the_same_every_time() -> None:
    """Nothing in them depends on when they are asked for, or every `pulumi up` would replace the machine (X2)."""
    assert Cluster.user_data(0, 600) == Cluster.user_data(0, 600)
    assert Cluster.user_data(0, 600) != Cluster.user_data(0, 700)


@pytest.mark.parametrize(("index", "seconds", "field"), [(-1, 60, "index"), (64, 60, "index"), (0, 0, "join_timeout")])
def test_wrong_arguments_are_refused(index: int, seconds: int, field: str) -> None:
    """A node that no cluster has, and a lease of no time, are refused by the argument's name (C1)."""
    with pytest.raises(SpecError, match=f"user_data: {field}"):
        Cluster.user_data(index, seconds)


def test_a_brought_image_gets_the_same_lease(tmp_path: Any) -> None:
    """The seed of a local machine arms it by the same units, for the time that the cluster has (X2)."""
    request = Reservation(
        cluster_id="c-1",
        nodes=2,
        machine=MachineSpec(),
        authorized_keys=("ssh-ed25519 AAAA",),
        identity_file=tmp_path / "id",
        deadline=1_800_000_000,
    )
    document = told(cloud_image.seed(0, request)["user-data"])
    assert document["write_files"] == told(Cluster.user_data(0))["write_files"]
    assert 'echo "$((1800000000))" > /etc/runcrate/lease' in document["runcmd"][0][2]


@pytest.mark.parametrize(("seconds", "ends"), [(-1, True), (60, False), (None, False)])
def test_the_lease_powers_off_when_it_is_over_and_not_while_it_is_ended(
    seconds: int | None, ends: bool, tmp_path: Path
) -> None:
    """What the timer starts compares the clock with the file, and a file that has just gone ends nothing (X2)."""
    file = tmp_path / "lease"
    if seconds is not None:
        file.write_text(f"{time.time() + seconds:.0f}\n")
    unit = next(unit for unit in lease.UNITS if unit.name == "runcrate-lease.service").read_text()
    (command,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    _, _, script = shlex.split(command.replace("$$", "$").replace("%%", "%").replace("/etc/runcrate/lease", str(file)))
    command_line = ["sh", "-c", f"systemctl() {{ echo off; }}\n{script}"]
    done = subprocess.run(command_line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "off\n" if ends else "")
