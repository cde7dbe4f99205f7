"""How many examples the tests of properties try: `pytest --hypothesis-profile=rehearse` tries two thousand."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

settings.register_profile("default", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("rehearse", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A rehearsal has a seed of its own; `--hypothesis-seed` repeats one."""
    if config.getoption("--hypothesis-profile") == "rehearse" and config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(secrets.randbelow(2**32))


ONE_CLUSTER = ("test_join", "test_preflight", "test_slurm", "test_up", "test_z_down")
"""The files whose tests share the cluster of tests/hosts/conftest.py."""


class ByCluster(LoadFileScheduling):  # type: ignore[misc]
    """The tests of a file run on one worker, and all that share a cluster on the same, in their order."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "cluster" if file.endswith(tuple(f"/{name}.py" for name in ONE_CLUSTER)) else file


@pytest.fixture(autouse=True)
def own_state(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A state folder for each test, so that none reads what another recorded; real machines are shared, and theirs."""
    if not any(request.node.get_closest_marker(ring) for ring in ("hosts", "kubernetes")):
        monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "state"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster | None:
    """How `--dist loadfile` gives tests to workers."""
    return ByCluster(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_report_header(config: pytest.Config) -> str | None:
    """The seed, for the next one who wants to see the same."""
    seed = config.getoption("--hypothesis-seed")
    return None if seed is None else f"hypothesis seed: {seed}"
