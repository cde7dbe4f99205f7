"""Long processes show signs of life and end at their deadline."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from runcrate_iac.engine import progress
from runcrate_iac.errors import Failed


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was reported, at a faster pace than people want."""
    monkeypatch.setattr(progress, "_EVERY_SECONDS", 0.05)
    return []


def test_a_process_is_watched_to_its_end(said: list[str]) -> None:
    """The title comes first, then how far it is; the end has the exit code and the last lines."""
    ended = progress.watch(
        ["/bin/sh", "-c", "echo one; echo two >&2; sleep 0.3; exit 4"],
        "working",
        lambda message, _node: said.append(message),
        seconds=20,
        how_far=lambda line: f"at {line}",
    )
    assert ended == (4, "one\ntwo")
    assert said[0] == "working"
    assert said[-1].startswith("working: at two, ")


def test_standard_output_can_be_kept(said: list[str], tmp_path: Path) -> None:
    """Where output goes to a file, only standard error is read."""
    with (tmp_path / "out").open("w+") as output:
        ended = progress.watch(
            ["/bin/sh", "-c", "echo kept; echo told >&2"],
            "working",
            lambda message, _node: said.append(message),
            seconds=20,
            output=output,
        )
        output.seek(0)
        assert (output.read(), ended.last_lines) == ("kept\n", "told")


def test_a_deadline_ends_the_process(said: list[str], tmp_path: Path) -> None:
    """A process that takes too long is killed, and the error says what it was and how long it had."""
    begun = time.monotonic()
    with pytest.raises(Failed, match="working did not end within 0 s"):
        progress.watch(
            ["/bin/sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 30"],
            "working",
            lambda message, _node: said.append(message),
            seconds=0.3,
        )
    assert time.monotonic() - begun < 10
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
