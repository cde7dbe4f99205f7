"""Real machines that fail, a join that is late, and Ctrl-C: each leaves nothing running."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.hosts.conftest import Computer
from tests.machines import until, virtual_machines

pytestmark = pytest.mark.hosts


def test_a_machine_that_dies_while_it_starts_ends_the_attempt(computer: Computer) -> None:
    """One killed machine: exit 3 in seconds, the node is named, every machine is released, cost 0 (C8, X1)."""
    process = computer.start("up", computer.spec(name="dies", software="none"), "--yes")
    until(lambda: virtual_machines("dies", ".node-1"), "the machine of node-1")
    killed = time.monotonic()
    for machine in virtual_machines("dies", ".node-1"):  # a QEMU that becomes a daemon is two for a moment
        machine.kill()
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 3
    assert time.monotonic() - killed < 30
    assert "node-1" in stderr
    assert computer.leftovers("dies") == []
    receipt = json.loads(computer.run("receipt", "dies", "--json").stdout)
    assert receipt["all_gone"]
    assert float(receipt["cost"]["usd"]) == 0


def test_a_machine_that_dies_during_the_join_is_named_at_once(computer: Computer) -> None:
    """A killed machine ends the join in seconds with its name, and all are proved gone within a minute (C8, F16)."""
    process = computer.start("up", computer.spec(name="dying", software="none"), "--yes")
    feed = computer.home / "clusters" / "dying" / "progress.jsonl"
    until(lambda: feed.exists() and '"step":"join"' in feed.read_text(), "the join")
    killed = time.monotonic()
    for machine in virtual_machines("dying", ".node-1"):
        machine.kill()
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 3, stderr
    assert time.monotonic() - killed < 60
    assert "node-1" in stderr
    assert "released 2 of 2 machines, nothing is billed" in stderr
    assert computer.leftovers("dying") == []
    assert (computer.home / "clusters/dying/logs/node-1.console.log").exists()


def test_a_join_that_is_late_releases_everything(computer: Computer) -> None:
    """A deadline too short for the join: exit 3, what each node waited for is told, nothing is left (C8)."""
    done = computer.run("up", computer.spec(name="late", software="none", join_timeout=14), "--yes")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "node-0" in done.stderr
    assert computer.leftovers("late") == []
    assert computer.status("late")["state"] == "failed"


def test_ctrl_c_during_the_join_releases_everything(computer: Computer) -> None:
    """One interrupt while nodes join: exit 3, no machine runs, no file is left (C8, F10)."""
    process = computer.start("up", computer.spec(name="stop", software="none"), "--yes")
    feed = computer.home / "clusters" / "stop" / "progress.jsonl"
    until(lambda: feed.exists() and '"step":"join"' in feed.read_text(), "the join")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 3, stderr
    assert computer.leftovers("stop") == []


def test_machines_outlive_a_killed_up_and_down_finds_them(computer: Computer) -> None:
    """After kill -9 of `up` its machines stay, and the next command finds them by their mark and releases them (X2)."""
    process = computer.start("up", computer.spec(name="kill", software="none"), "--yes")
    until(lambda: len(virtual_machines("kill")) == 2, "two machines")
    process.kill()
    process.communicate(timeout=10)
    assert computer.run("down", "kill", "--yes").returncode == 0
    assert computer.leftovers("kill") == []
