"""A machine tells which cluster it is in: in a real shell, its files in a folder of the test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runcrate_iac.provision.facts import Facts, parse
from runcrate_iac.render import render
from tests.provision.test_leave import Here, network


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A machine that has joined the cluster t-1 as node-1."""
    return Here(tmp_path)


def look(here: Here) -> Facts:
    """What the preflight hears of it."""
    script = render("checks/preflight.sh.j2", node=network().nodes[1], shared_folder=True)
    done = subprocess.run(["sh", "-s"], input=here.moved(script), capture_output=True, text=True, check=True)
    facts = parse(done.stdout.splitlines(), now=0.0)
    assert facts
    return facts


def test_the_preflight_hears_it_until_the_machine_leaves(here: Here) -> None:
    """The join's own file tells it to any login user, and one that has left is in no cluster any more (C7)."""
    assert look(here).cluster == "t-1"
    here.join()
    assert here.leave("t-1").returncode == 0
    assert look(here).cluster == ""
