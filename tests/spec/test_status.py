"""What `status` shows while the provider has a bad moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.machines.registry import FAULTS as FAULTS_FILE
from runcrate_iac.paths import write_atomic
from tests.engine.lab import Lab

FAULTS: dict[str, dict[str, Any]] = {
    "ServerError": {"fault": "error", "call": "list", "times": "always"},
    "ConnectionResetError": {"fault": "dropped", "call": "list", "times": "always"},
}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """An empty lab."""
    return Lab.made(tmp_path)


def ready(lab: Lab, fault: dict[str, Any]) -> None:
    """A cluster that is ready, and whose provider has had this fault since."""
    lab.ready(faults=[fault])
    write_atomic(lab.root / "home" / "clusters" / "lab" / FAULTS_FILE, '{"cluster_id": "lab-1"}')


@pytest.mark.parametrize("error", FAULTS)
def test_what_the_ledger_knows_is_shown_whatever_the_provider_says(lab: Lab, error: str) -> None:
    """A provider that answers with an error leaves the machines unknown; the state is told, as a document (C24, X6)."""
    ready(lab, FAULTS[error])
    code, stdout, stderr = lab.run("status", "lab", "--json")
    found = json.loads(stdout)
    assert (code, found["state"]) == (0, "ready"), stderr
    assert found["machine_states"] == {"node-0": "unknown", "node-1": "unknown"}
    assert error in found["provider_error"]


def test_the_provider_is_named_with_what_it_said(lab: Lab) -> None:
    """The same for people: the table, and under it why it has nothing to say of the machines (C24)."""
    ready(lab, FAULTS["ServerError"])
    code, stdout, stderr = lab.run("status", "lab")
    assert code == 0
    assert stdout.count("unknown") == 2
    assert "fakecloud can't be asked: ServerError" in stderr
