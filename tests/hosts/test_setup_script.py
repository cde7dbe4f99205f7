"""The user's own set-up script on two containers: it fails, hangs and prints without end, and a retry mends it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from runcrate_iac.model.network import Machine, plan
from tests.hosts.conftest import Cluster, Computer

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(os.geteuid() != 0, reason="containers need root")]

SCRIPT = """#!/bin/bash
set -euo pipefail
cat  # standard input is empty
echo "$RUNCRATE_CLUSTER $RUNCRATE_NODE $RUNCRATE_INDEX of $RUNCRATE_NODES, head $RUNCRATE_HEAD, $USER $PWD" >> /srv/ran
nohup sleep 7777 &
[[ $RUNCRATE_NODE != node-1 || -e /srv/mirror ]] || { echo "no such mirror"; exit 3; }
"""
HANGS = """#!/bin/sh
trap '' TERM
setsid sleep 8888 &
yes 'on and on'
"""
FILLS = """#!/bin/sh
mark=/var/lib/runcrate/setup
cp $mark/wanted /run && mount -t tmpfs -o size=16k tmpfs $mark && cp /run/wanted $mark || exit 1
head -c 1M /dev/zero > $mark/full 2> /dev/null || echo full
"""


@pytest.fixture(scope="module")
def script(any_computer: Computer) -> Path:
    """The set-up script beside the spec."""
    path = any_computer.home / "setup.sh"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def spec(any_computer: Computer, script: Path) -> Path:
    """A spec of two containers with the script and no other software."""
    shape = {"kind": "container", "gpu": "H100", "gpus": 8}
    fields = {"name": "scripted", "machine": shape, "software": "none", "setup": script.name, "setup_timeout": 20}
    return any_computer.spec(**fields)


@pytest.fixture(scope="module")
def scripted(any_computer: Computer, spec: Path) -> Cluster:
    """That cluster, whose script fails on node-1."""
    done = any_computer.run("up", spec, "--yes")
    assert done.returncode == 4, done.stdout + done.stderr
    machines = [Machine.model_validate(one) for one in any_computer.status("scripted")["machines"]]
    return Cluster("scripted", any_computer, plan(machines), done.stdout + done.stderr)


def test_a_script_that_fails_degrades(scripted: Cluster) -> None:
    """It exits 3 on node-1: degraded, told with node, fact, last lines and remedy, and SSH works (C9, X5, F32)."""
    assert "the set-up script ended with exit status 3 after 0 s on node-1" in scripted.said
    assert "    no such mirror\n" in scripted.said
    assert "runcrate-iac retry scripted" in scripted.said
    status = scripted.computer.status("scripted")
    (wrong,) = [one for one in status["conditions"] if one["status"] != "true"]
    assert (status["state"], wrong["node"], wrong["reason"]) == ("degraded", "node-1", "Failed")
    assert wrong["log"] == ["no such mirror"]
    said = "scripted node-1 1 of 2, head node-0, root /root\n"
    assert scripted.ssh("node-1", "cat /srv/ran") == said
    assert "no such mirror" in scripted.ssh("node-1", "sudo cat /var/log/runcrate/setup.log")


def test_what_it_left_running(scripted: Cluster) -> None:
    """Where it succeeded the process in the background lives on, where it failed nothing does (F32)."""
    assert scripted.ssh("node-0", "pgrep -x sleep -c", check=False) == "1\n"
    assert scripted.ssh("node-1", "pgrep -x sleep -c", check=False) == "0\n"


def test_a_check_does_not_forget_it(scripted: Cluster) -> None:
    """`status --check` of the cluster finds all else well and leaves it degraded (C9)."""
    done = scripted.computer.run("status", "scripted", "--check")
    assert done.returncode == 4
    assert "the set-up script has not succeeded on node-1" in done.stdout


def test_a_retry_runs_it_only_where_it_had_not_succeeded(scripted: Cluster) -> None:
    """What it needs put right, `retry` makes the cluster ready, and node-0 doesn't run it again (C9, X5)."""
    scripted.ssh("node-1", "sudo touch /srv/mirror")
    done = scripted.computer.run("retry", "scripted", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "ready"
    assert [scripted.ssh(node, "wc -l < /srv/ran") for node in ("node-0", "node-1")] == ["1\n", "2\n"]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # SQLite's, which go with the last connection
        return b""


def test_the_script_is_a_secret(scripted: Cluster) -> None:
    """Its text is in no log and not readable in any state on this computer, and root's alone on the nodes (X4)."""
    home = scripted.computer.home
    text = b"set -euo pipefail"
    mine = [path for path in home.rglob("*") if path.is_file() and home / "machines" not in path.parents]
    assert [path.name for path in mine if text in _content(path)] == ["setup.sh"]
    modes = scripted.ssh("node-0", "sudo stat -c %a /usr/local/lib/runcrate/setup-script /var/log/runcrate")
    assert modes.split() == ["700", "700"]


def test_what_is_done_is_not_done_again(scripted: Cluster, spec: Path) -> None:
    """On the ready cluster neither `retry` nor `up` changes anything (C4)."""
    done = scripted.computer.run("retry", "scripted")
    assert (done.returncode, "is ready; nothing to do" in done.stdout) == (0, True)
    done = scripted.computer.run("up", spec, "--yes")
    assert (done.returncode, "nothing to change" in done.stdout) == (0, True)


def test_a_script_that_hangs_and_prints_without_end_is_killed(scripted: Cluster, script: Path, spec: Path) -> None:
    """It ends at its limit with all that it started, its log is bounded, and so is what is told of it (F32, G4)."""
    script.write_text(HANGS)
    begun = time.monotonic()
    done = scripted.computer.run("up", spec, "--yes")
    assert done.returncode == 4
    assert time.monotonic() - begun < 90
    for node in ("node-0", "node-1"):
        assert f"the set-up script did not end in 20 s and was killed on {node}" in done.stderr
        assert "    on and on\n" in done.stderr
        assert scripted.ssh(node, "pgrep -x 'sleep|yes|head' -c", check=False) == "0\n"
        assert int(scripted.ssh(node, "sudo sh -c 'cat /var/log/runcrate/*' | wc -c")) <= 2 << 20
    assert len(done.stderr) < 20000


def test_a_script_that_fills_the_disk_is_told_as_what_it_did(scripted: Cluster, script: Path, spec: Path) -> None:
    """It ran to its end, which its full disk has no room to note: both are told (C9, X5)."""
    script.write_text(FILLS)
    done = scripted.computer.run("up", spec, "--yes")
    assert done.returncode == 4
    for node in ("node-0", "node-1"):
        fact = (
            f"the set-up script succeeded after 0 s, but that could not be noted on {node}, whose disk is full (0 KiB"
        )
        assert fact in done.stderr
        scripted.ssh(node, "sudo umount /var/lib/runcrate/setup")
    assert "    full\n" in done.stderr


def test_a_retry_reads_the_corrected_script(scripted: Cluster, script: Path) -> None:
    """The script corrected, here to what it was, `retry` makes the cluster ready, with nothing failed on it (F32)."""
    script.write_text(SCRIPT)
    done = scripted.computer.run("retry", "scripted")
    assert done.returncode == 0, done.stderr
    assert scripted.ssh("node-0", "wc -l < /srv/ran; systemctl is-system-running") == "1\nrunning\n"


def test_down_ends_a_degraded_cluster(scripted: Cluster, script: Path, spec: Path) -> None:
    """A cluster that a script degraded is ended like any other (C7, C9)."""
    script.write_text("exit 1\n")
    assert scripted.computer.run("up", spec, "--yes").returncode == 4
    assert scripted.computer.run("down", "scripted", "--yes").returncode == 0
