"""What people see of text that machines wrote."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runcrate_iac.cli import output
from runcrate_iac.cli.display import Display, _StepRow
from runcrate_iac.model.progress import Event, Mark, Step

CONSOLE = "[/sbin/fsck.ext4 (1) -- /] [FAILED] to mount [fe80::1]"


def event(message: str, mark: Mark = Mark.PROGRESS) -> Event:
    """News of the machines step."""
    return Event(time=datetime.now(UTC), step=Step.MACHINES, mark=mark, message=message)


def test_brackets_of_a_console_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A console's brackets are no markup: neither lost nor an error (X5)."""
    output.table(("event",), [(CONSOLE,)])
    row = _StepRow(Step.MACHINES)
    row.take(event(CONSOLE, Mark.FAILED))
    output.console.print(row.render())
    shown = capsys.readouterr().out
    assert shown.count("[/sbin/fsck.ext4 (1) -- /] [FAILED]") == 2


def test_without_a_terminal_every_event_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe each event is one line with its step (X7)."""
    with Display(as_json=False) as display:
        display(event("booting"))
    assert "machines: booting" in capsys.readouterr().err
