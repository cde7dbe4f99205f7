"""Where the steps of a stack run, and how they are found again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pulumi_command import local

from runcrate_iac.engine import stack_files
from runcrate_iac.engine.install import Engine
from runcrate_iac.engine.pulumi import Stack, end_orphans

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


def test_what_runs_in_the_stacks_folder_is_ended_under_a_linked_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed command left is found where the state folder is reached by a symbolic link, too (X2)."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "home"))
    work = stack_files.work("demo")
    work.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"], cwd=work) as left:
        end_orphans("demo")
        assert left.wait(30) == -signal.SIGKILL
