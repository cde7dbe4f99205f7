"""Which clock runs when: with the real Pulumi engine and a provider whose machines cost nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.engine.lab import FAILS, Lab

pytestmark = pytest.mark.engine
UP = """
from runcrate_iac.cli import main
from runcrate_iac.engine import transaction
transaction.BACKSTOP_SECONDS = 0.0
transaction.PREPARE_SECONDS = min(transaction.PREPARE_SECONDS, {seconds})
main()
"""


def up(lab: Lab, seconds: float = float("inf"), join_timeout: int = 12) -> subprocess.CompletedProcess[str]:
    """An `up` whose provider prepares for 15 s, and whose Pulumi gets not a second more than each clock says.

    ``seconds``: until the reservation.
    """
    spec = lab.spec(join_timeout=join_timeout, faults=[FAILS])
    command = [sys.executable, "-c", UP.format(seconds=f"float('{seconds}')"), "up", str(spec), "--yes"]
    env = lab.env | {"FAKECLOUD_PREPARES": "15"}
    return subprocess.run(command, env=env, cwd=lab.root, capture_output=True, text=True, check=False, timeout=120)


def test_the_clock_starts_at_the_reservation(lab: Lab) -> None:
    """Images are made for longer than the join may take, and `up` goes on to ask for machines (C8)."""
    done = up(lab)
    assert "node-1: its machine failed to start" in done.stderr
    assert (done.returncode, lab.machines, lab.state()) == (3, [], "failed")


def test_what_is_prepared_has_a_clock_of_its_own(lab: Lab) -> None:
    """A Pulumi that has reserved nothing in its time is ended, and that is said (C8)."""
    done = up(lab, seconds=5, join_timeout=600)
    assert done.returncode == 3
    assert "nothing was reserved: not reserved by " in done.stderr
    assert (lab.machines, lab.processes()) == ([], [])
