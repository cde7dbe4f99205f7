"""Some cases of ``make rehearse``, which has them all."""

from __future__ import annotations

import os

import pytest

from runcrate_iac.model.progress import Mark, Step
from tests.hosts.conftest import Computer
from tests.rehearse import Case, rehearse

pytestmark = pytest.mark.hosts

CASES = (
    (Case(Step.JOIN, Mark.STARTED, "SIGKILL"), "killed"),
    (Case(Step.JOIN, Mark.DONE, "SIGINT twice"), "left at once"),
    (Case(Step.STORAGE, Mark.STARTED, "the step fails"), "degraded"),
)


@pytest.mark.parametrize(("case", "came_to"), CASES)
def test_nothing_is_left(any_computer: Computer, monkeypatch: pytest.MonkeyPatch, case: Case, came_to: str) -> None:
    """However `up` ends at a step's boundary, nothing is left after recovery, with proof (X1, F10)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(any_computer.home))
    kind = "container" if os.geteuid() == 0 else "vm"
    result = rehearse(any_computer, case, CASES.index((case, came_to)), kind)
    assert (result.came_to, result.recovered_by, result.left) == (came_to, "down", ())
