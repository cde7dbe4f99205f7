"""`retry`: what it goes on with, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from runcrate_iac.engine import transaction
from runcrate_iac.engine.install import Engine
from runcrate_iac.errors import Refused, SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.model.lifecycle import Happened

MINE = "organization/runcrate-iac/demo"
NO_ENGINE = cast("Engine", None)
"""What is refused or left alone needs none."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer on which no cluster is known."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))


def cluster(*happened: Happened, owner: str = MINE, **fields: Any) -> None:
    """A cluster to which this has happened since it was reserved."""
    data = {"owner": owner, "spec": {"name": "demo", "software": "slurm"} | fields, "price_per_hour": "1"}
    ledger = Ledger()
    ledger.record("demo", "demo-1", Happened.RESERVED, **data, deadline="2026-01-01T00:25:00+00:00")
    for one in happened:
        ledger.record("demo", "demo-1", one)


def refused() -> str:
    """Why a retry is refused, and what to do instead."""
    with pytest.raises(Refused) as error:
        transaction.retry("demo", NO_ENGINE, print)
    return str(error.value)


def test_nothing_that_is_up_is_refused() -> None:
    """A name that is not up is refused with the way to bring it up (C9)."""
    assert "demo is not up\n  remedy: bring it up" in refused()


def test_a_cluster_of_another_stack_is_refused() -> None:
    """It names the stack, and the command to run there (C24)."""
    cluster(Happened.JOINED, Happened.INSTALL_FAILED, owner="acme/web/prod")
    assert "stack acme/web/prod\n  remedy: run `pulumi up` in that project" in refused()


def test_what_has_not_joined_is_refused() -> None:
    """Before the common moment there is nothing to go on with (C8)."""
    cluster()
    assert "has not joined" in refused()


@pytest.mark.parametrize("happened", [Happened.TERMINATE_ASKED, Happened.START_FAILED])
def test_what_is_ending_is_refused(happened: Happened) -> None:
    """A cluster that ends is ended to its end (C7)."""
    cluster(happened)
    assert "runcrate-iac down demo" in refused()


def test_a_script_that_went_away_is_told_first() -> None:
    """A degraded cluster whose set-up script can't be read any more is refused before anything runs (C9)."""
    cluster(Happened.JOINED, Happened.INSTALL_FAILED, setup="/nowhere/setup.sh")
    with pytest.raises(SpecError, match=r"setup: /nowhere/setup\.sh: No such file"):
        transaction.retry("demo", NO_ENGINE, print)
