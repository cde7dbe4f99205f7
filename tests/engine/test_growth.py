"""Workers for a cluster that is up: with the real Pulumi engine and a provider whose machines cost nothing."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engine.lab import HANGS, Lab
from tests.machines import until

pytestmark = pytest.mark.engine
FAILS = {"fault": "failed", "node": "node-3", "done": True}
"""node-3's machine is made and does not start."""
OLD = ["node-0", "node-1"]


@pytest.fixture
def ready(lab: Lab) -> Lab:
    """A cluster of two nodes that is ready, as its ledger and its provider tell."""
    lab.ready()
    return lab


def nodes(lab: Lab) -> list[str]:
    """The nodes whose machines the provider has."""
    return [machine.partition(".")[2] for machine in lab.machines]


def grown(lab: Lab, *faults: dict[str, Any]) -> Path:
    """The spec with two more nodes, and what goes wrong with them."""
    return lab.spec(nodes=4, join_timeout=600, faults=list(faults))


def growing(lab: Lab) -> subprocess.Popen[str]:
    """An `up` whose new machines are made, and whose provider does not say so."""
    process = lab.start("up", grown(lab, HANGS), "--yes")
    until(lambda: len(lab.machines) == 4, "four machines")
    return process


def killed_in_growth(lab: Lab) -> None:
    """The same after kill -9 (X2)."""
    process = growing(lab)
    process.kill()
    process.communicate(timeout=10)


def as_before(lab: Lab) -> None:
    """The cluster is what it was, and the receipt proves the end of every machine that was made beside it."""
    assert (nodes(lab), lab.state()) == (OLD, "ready")
    view = json.loads(lab.run("status", "lab", "--json")[1])
    assert (view["spec"]["nodes"], view["growth"], float(view["price_per_hour"]["usd"])) == (2, None, 5.0)
    for machine in json.loads(lab.run("receipt", "lab", "--json")[1])["machines"]:
        assert (machine["node"] in OLD) != bool(machine["proof"])


def test_preview_says_what_a_growth_does(ready: Lab) -> None:
    """Preview tells how many workers come and what the price per hour becomes; nothing is reserved (X7, C11)."""
    code, stdout, stderr = ready.run("preview", grown(ready))
    assert code == 0, stderr
    assert "+2 workers, $2.50 per hour each: the price per hour goes from $5.00 to $10.00" in stdout
    as_before(ready)


@pytest.mark.parametrize("verb", ["preview", "up"])
def test_another_shape_for_added_workers_is_refused(ready: Lab, verb: str) -> None:
    """Fewer nodes, or workers of another GPU type: exit 6 with the reason, before anything happens (C1, C7)."""
    yes = ["--yes"] if verb == "up" else []
    code, _, stderr = ready.run(verb, ready.spec(nodes=4, machine={"gpu": "A100"}), *yes)
    assert (code, "machine.gpu: H100 is running, A100 is asked" in stderr) == (6, True)
    as_before(ready)


def test_a_growth_that_fails_leaves_the_cluster_as_it_was(ready: Lab) -> None:
    """A new machine that does not start: exit 3, the new ones are released and proved gone, the old stay (C8, X1)."""
    code, _, stderr = ready.run("up", grown(ready, FAILS), "--yes")
    assert code == 3
    assert "no worker was added: node-3: its machine failed to start" in stderr
    assert "released 2 of 2 machines that were to be added" in stderr
    assert "node-0 to node-1 stay as they are" in stderr
    as_before(ready)


def test_an_interrupt_releases_the_new_machines(ready: Lab) -> None:
    """Ctrl-C while new machines start: they are released, exit 3, and the cluster is as it was (F10)."""
    process = growing(ready)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 3, stderr
    as_before(ready)


def test_a_killed_growth_is_undone_by_the_next_up(ready: Lab) -> None:
    """After kill -9 in the middle the next `up` releases what was made, and begins anew (X2)."""
    killed_in_growth(ready)
    code, _, stderr = ready.run("up", grown(ready, FAILS), "--yes")
    assert code == 3, stderr
    told = [entry["type"] for entry in json.loads(ready.run("events", "lab", "--json")[1])]
    assert [one for one in told if "growth" in one] == ["growth_started", "growth_undone"] * 2
    as_before(ready)


def test_a_killed_growth_is_ended_by_down(ready: Lab) -> None:
    """After kill -9 in the middle `down` releases old and new machines, and nothing runs any more (X2, C7)."""
    killed_in_growth(ready)
    code, _, stderr = ready.run("down", "lab", "--yes")
    assert (code, ready.machines, ready.state(), ready.processes()) == (0, [], "terminated", []), stderr
