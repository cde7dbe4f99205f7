"""Folders that are made once: whole or not at all, by one process at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runcrate_iac.machines.local.cache import USERS, made_once, needed_by
from runcrate_iac.model.progress import Report

MAKER = """
import sys, time
from pathlib import Path
from runcrate_iac.machines.local.cache import made_once
def make(part):
    with open(sys.argv[2], "a") as log: log.write("made\\n")
    time.sleep(0.5)
    (part / "file").write_text("whole")
made_once(Path(sys.argv[1]), make, "it", lambda message, node: None)
print((Path(sys.argv[1]) / "file").read_text())
"""


def quiet(_message: str, _node: str | None) -> None:
    """Nobody listens."""


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    """Of two processes that need the same folder one makes it, and the other gets it whole."""
    words = [sys.executable, "-c", MAKER, str(tmp_path / "folder"), str(tmp_path / "log")]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in both] == ["whole\n", "whole\n"]
    assert (tmp_path / "log").read_text() == "made\n"


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    """A folder whose making fails is not there, and the next attempt begins anew."""

    def fail(part: Path) -> None:
        (part / "half").write_text("")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        made_once(tmp_path / "folder", fail, "it", quiet)
    assert not (tmp_path / "folder").exists()
    made_once(tmp_path / "folder", lambda part: None, "it", quiet)
    assert (tmp_path / "folder").is_dir()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder that was used last 31 days ago."""
    folder = made(tmp_path / "cache" / "old")
    age(folder, 31)
    return folder


def made(folder: Path, report: Report = quiet) -> Path:
    """A folder of the cache."""

    def make(part: Path) -> None:
        (part / "disk").write_text("whole")

    return made_once(folder, make, "warm start", report)


def age(folder: Path, days: float) -> None:
    """Its last use was so many days ago."""
    os.utime(folder / USERS, (time.time() - days * 86400,) * 2)


def test_what_nothing_has_used_for_a_month_is_removed(old: Path) -> None:
    """Where a new folder is made, one beside it that is 31 days old goes, which is told; younger ones stay."""
    age(old, 0)
    age(made(old.with_name("younger")), 29)
    age(old, 31)
    new = old.with_name("new")
    told: list[str] = []
    made(new, lambda message, node: told.append(message))
    assert [path.name for path in sorted(new.parent.glob("[!.]*"))] == ["new", "younger"]
    assert told == [f"warm start: removing {old}, which nothing has used for 31 days"]
    assert [path.suffix for path in new.parent.glob(".*")] == [".lock"] * 3


def test_a_use_keeps_a_folder(old: Path) -> None:
    """What was made long ago and is used today is no unused folder."""
    made(old)
    made(old.with_name("new"))
    assert (old / "disk").exists()


def test_a_machine_keeps_what_it_stands_on(old: Path, tmp_path: Path) -> None:
    """As long as a machine's folder is there, running or not, in whatever state folder, so is its base."""
    machine = tmp_path / "state" / "node-0"
    machine.mkdir(parents=True)
    needed_by(old, machine)
    needed_by(old, machine)
    age(old, 300)
    made(old.with_name("one"))
    assert (old / "disk").exists()
    machine.rmdir()
    made(old.with_name("another"))
    assert not old.exists()


def test_a_base_of_an_older_version_is_left_alone(old: Path, tmp_path: Path) -> None:
    """Of a folder that was made without saying who needs it nobody knows whether it may go."""
    (old / USERS).rmdir()
    made(old)
    needed_by(old, tmp_path)
    os.utime(old, (0, 0))
    made(old.with_name("new"))
    assert [path.name for path in old.iterdir()] == ["disk"]


def test_a_folder_that_is_locked_is_left_alone(old: Path) -> None:
    """What another process is about to use is not taken from under it."""
    with (old.parent / ".old.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made(old.with_name("new"))
    assert (old / "disk").exists()
