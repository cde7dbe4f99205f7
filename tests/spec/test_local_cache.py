"""Folders that are made once: whole or not at all, by one process at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runcrate_iac.machines.local.cache import made_once

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
    assert list((tmp_path / "folder").iterdir()) == []
