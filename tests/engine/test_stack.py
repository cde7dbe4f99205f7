"""Where the steps of a stack run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pulumi_command import local

from runcrate_iac.engine import stack_files
from runcrate_iac.engine.install import Engine
from runcrate_iac.engine.pulumi import Stack

pytestmark = pytest.mark.engine


def program(create: str) -> Callable[[], None]:
    """A program with one step."""

    def declare() -> None:
        local.Command("step", create=create)

    return declare


def test_steps_run_in_the_stacks_own_folder(
    tmp_path: Path, pulumi_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a command is called, its steps run in the stack's folder and have its state folder (C24, X2)."""
    first, seen = tmp_path / "project", tmp_path / "seen"
    first.mkdir()
    monkeypatch.chdir(first)
    monkeypatch.setenv("RUNCRATE_IAC_HOME", "../home")
    Stack(pulumi_engine, "demo", program("true")).up()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNCRATE_IAC_HOME", "home")
    first.rmdir()
    assert Stack(pulumi_engine, "demo", program(f'(pwd; echo "$RUNCRATE_IAC_HOME") > {seen}')).up() == 1
    assert seen.read_text().split() == [str(stack_files.work("demo")), str(tmp_path / "home")]
