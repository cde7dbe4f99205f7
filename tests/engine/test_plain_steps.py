"""The steps of plain Pulumi beside commands and folders of another: with a provider whose machines cost nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.lab import HANGS, Lab
from tests.machines import until

pytestmark = pytest.mark.engine
PROGRAM = """
from runcrate_iac import Cluster

Cluster("lab", provider="fakecloud", join_timeout=600, faults=[{faults}])
"""
CLOSED = """
from runcrate_iac import Cluster, Machine

machines = [Machine(address="127.0.0.1", port=port, endpoint=f"127.0.0.1:{{51820 + port}}") for port in (9, 10)]
Cluster("lab", machines=machines, join_timeout={seconds})
"""


@pytest.fixture
def plain(cli: Any, lab: Lab) -> Any:
    """Plain Pulumi in a project of its own, on the lab's computer."""
    cli.env = cli.env | {name: lab.env[name] for name in ("RUNCRATE_IAC_HOME", "FAKECLOUD", "PYTHONPATH")}
    cli.write(PROGRAM.format(faults=HANGS))
    cli("stack", "init", "dev")
    return cli


def test_down_does_not_cross_a_step_that_works(plain: Any, lab: Lab) -> None:
    """While plain Pulumi asks for machines `down` is refused; once that was killed it ends them (F17, X2)."""
    up = plain.start("up", "--yes", "--skip-preview")
    until(lambda: len(lab.machines) == 2, "two machines")
    code, _, stderr = lab.run("down", "lab", "--yes")
    assert (code, len(lab.machines), lab.state()) == (6, 2, "provisioning")
    assert "`machines` is working on it, process" in stderr
    up.kill()
    up.communicate(timeout=30)
    code, _, stderr = lab.run("down", "lab", "--yes")
    assert (code, lab.machines, lab.state()) == (0, [], "terminated"), stderr


def test_another_state_folder_ends_nothing_and_begins_nothing(plain: Any, tmp_path: Path) -> None:
    """There destroy and update are refused; Pulumi can be told to forget what it has of a folder that is lost (C7)."""
    plain.write(CLOSED.format(seconds=10))
    assert "join failed" in plain.up(fails=True)  # and Pulumi has the machines
    plain.env = plain.env | {"RUNCRATE_IAC_HOME": str(tmp_path / "other")}
    told = f"lab was made with another state folder: {tmp_path / 'other'} does not know it"
    assert told in plain("destroy", "--yes", "--skip-preview", fails=True)
    plain.write(CLOSED.format(seconds=11))
    printed = plain.up(fails=True)
    assert told in printed
    (way_out,) = [line.partition("pulumi ")[2] for line in printed.splitlines() if "pulumi state delete" in line][:1]
    plain(*way_out.split(), "--yes")
    plain("destroy", "--yes", "--skip-preview")
