"""With --json, standard output is one document and standard error a document a line, however a command ends."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.engine.lab import RUN, Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A cluster that is ready as its ledger tells; nothing answers at its machines."""
    lab = Lab.made(tmp_path)
    lab.ready(software="none")
    return lab


def test_what_could_not_be_measured_is_in_the_one_document(lab: Lab) -> None:
    """A bandwidth test of nodes that don't answer is one document with the reasons, and exit 4 (C24)."""
    code, stdout, stderr = lab.run("bandwidth", "lab", "--json")
    document = json.loads(stdout)
    assert code == 4, stderr
    assert all(pair["private"] is None and pair["reasons"] for pair in document["pairs"])
    assert all(json.loads(line) for line in stderr.splitlines())


def test_a_question_that_is_answered_no_is_a_document(lab: Lab) -> None:
    """Where the user says no, nothing is done, and the document has the question (C24, C7)."""
    leader, follower = os.openpty()
    command = [*RUN, "down", "lab", "--json"]
    os.write(leader, b"n\n")
    done = subprocess.run(command, env=lab.env, stdin=follower, capture_output=True, text=True, check=False, timeout=60)
    os.close(leader)
    os.close(follower)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"declined": "Terminate lab (ready, 2 machines, /shared included)?"}
    assert lab.state() == "ready"
