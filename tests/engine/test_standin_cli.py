"""Plain ``pulumi`` with both stand-ins: preview, up, destroy, cancel and failure in a project folder."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.engine

STEP = """
import pulumi
from pulumi_command import local

step = local.Command(
    "step",
    create="echo create; cat",
    update="echo update; cat",
    delete="echo gone >> {folder}/deletes",
    stdin="{stdin}",
    triggers=["{trigger}"],
)
pulumi.export("printed", step.stdout)
"""


def test_a_project_lives_from_preview_to_destroy(cli: Any, tmp_path: Path) -> None:
    """Preview runs nothing, up creates, again nothing; inputs update, triggers replace, destroy deletes (C24)."""
    deletes = tmp_path / "deletes"
    cli.write(STEP.format(folder=tmp_path, stdin="first", trigger="a"))
    cli("stack", "init", "dev")
    previewed = cli("preview")
    assert "+ 2 to create" in previewed
    assert "printed: [unknown]" in previewed
    assert 'printed: "create\\nfirst"' in cli.up()
    assert "2 unchanged" in cli.up("--expect-no-changes")
    cli.write(STEP.format(folder=tmp_path, stdin="second", trigger="a"))
    updated = cli.up()
    assert "+ update" in updated
    assert "+ second" in updated
    assert not deletes.exists()
    cli.write(STEP.format(folder=tmp_path, stdin="second", trigger="b"))
    assert "+-1 replaced" in cli.up()
    assert deletes.read_text() == "gone\n"
    assert "2 deleted" in cli("destroy", "--yes", "--skip-preview")
    assert deletes.read_text() == "gone\ngone\n"


def test_secrets_are_encrypted_and_large_outputs_kept(cli: Any) -> None:
    """What came from a secret is ciphertext in the state; three megabytes are an output like any other (G4)."""
    cli.write(
        "import pulumi\nfrom pulumi_command import local\n"
        "secret = pulumi.Output.secret('hush-hush')\n"
        "step = local.Command('step', create='echo $AS; cat', environment={'AS': 'plain'}, stdin=secret)\n"
        "loud = local.Command('loud', create='yes | head -c 3000000', logging='none')\n"
        "pulumi.export('printed', step.stdout)\n"
        "pulumi.export('length', loud.stdout.apply(len))\n"
    )
    cli("stack", "init", "dev")
    cli.up()
    outputs = json.loads(cli("stack", "output", "--json", "--show-secrets"))
    assert outputs == {"printed": "plain\nhush-hush", "length": 2999999}
    state = cli("stack", "export")
    assert "hush-hush" not in state
    steps = {entry["urn"].split("::")[-1]: entry for entry in json.loads(state)["deployment"]["resources"]}
    assert "ciphertext" in steps["step"]["outputs"]["stdout"]
    assert steps["step"]["outputs"]["environment"] == {"AS": "plain"}


def test_an_interrupt_ends_the_commands_and_a_failure_is_explained(cli: Any, tmp_path: Path) -> None:
    """Ctrl-C kills what the commands started; the next ``up`` runs, and shows a failure's exit code and output."""
    pid = tmp_path / "pid"
    cli.write(f"from pulumi_command import local\nlocal.Command('slow', create='sleep 60 & echo $! > {pid}; wait')\n")
    cli("stack", "init", "dev")
    process = cli.start("up", "--yes", "--skip-preview")
    deadline = time.monotonic() + 30
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.05)
    sleeper = psutil.Process(int(pid.read_text()))
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "signal: killed" in printed
    assert "exited prematurely" not in printed
    assert not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE

    broken = "yes | head -c 3000000; echo the reason >&2; exit 41"
    cli.write(f"from pulumi_command import local\nlocal.Command('broken', create='{broken}', logging='none')\n")
    printed = cli.up(fails=True)
    assert "exit status 41: running" in printed
    assert "the reason" in printed
