"""Where state and caches are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runcrate_iac.errors import SpecError
from runcrate_iac.paths import cache_dir, state_dir


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and no other variable."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("RUNCRATE_IAC_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def test_the_folders_are_those_of_the_xdg_specification(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State and caches are under the user's home, or where the XDG variables say (C24)."""
    assert (state_dir(), cache_dir()) == (home / ".local/state/runcrate-iac", home / ".cache/runcrate-iac")
    monkeypatch.setenv("XDG_STATE_HOME", "/srv/state")
    monkeypatch.setenv("XDG_CACHE_HOME", "/srv/cache")
    assert (state_dir(), cache_dir()) == (Path("/srv/state/runcrate-iac"), Path("/srv/cache/runcrate-iac"))


@pytest.mark.parametrize("relative", ["state", "./state", ""])
def test_a_relative_xdg_folder_counts_as_not_given(home: Path, monkeypatch: pytest.MonkeyPatch, relative: str) -> None:
    """Processes in different folders have the same state: relative XDG variables are ignored, as specified (X2)."""
    monkeypatch.setenv("XDG_STATE_HOME", relative)
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    assert (state_dir(), cache_dir()) == (home / ".local/state/runcrate-iac", home / ".cache/runcrate-iac")


def test_a_relative_state_folder_is_one_of_where_the_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """RUNCRATE_IAC_HOME may be relative, as a path on a command line may (C24)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", "state")
    assert state_dir() == Path.cwd() / "state"


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number without an entry in the password database, as containers have, is an error with its remedy (C24)."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(SpecError, match=r"user 54321 has no home folder\n  remedy: set HOME"):
        state_dir()
