"""How many examples the tests of properties try: `pytest --hypothesis-profile=rehearse` tries two thousand."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import settings

settings.register_profile("default", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("rehearse", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile("default")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A rehearsal has a seed of its own; `--hypothesis-seed` repeats one."""
    if config.getoption("--hypothesis-profile") == "rehearse" and config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(secrets.randbelow(2**32))


def pytest_report_header(config: pytest.Config) -> str | None:
    """The seed, for the next one who wants to see the same."""
    seed = config.getoption("--hypothesis-seed")
    return None if seed is None else f"hypothesis seed: {seed}"
