"""Waiting for a machine of this computer: what ends the wait at once, and what is told of it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

import pytest

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.local.waiting import failing_as


def test_a_program_that_fails_ends_the_attempt_with_its_own_words(tmp_path: Path) -> None:
    """A disk that can't be made, as one example, names the node and what the program said; nobody asks again (C8)."""

    def make_disk() -> None:
        subprocess.run(["sh", "-c", "echo 'No space left' >&2; exit 3"], check=True, capture_output=True)

    async def make() -> None:
        async with failing_as("node-1", tmp_path, time.time() + 60):
            make_disk()

    with pytest.raises(StepFailed, match="machines: node-1: sh ended with 3: No space left; the last lines") as failed:
        asyncio.run(make())
    assert failed.value.node == "node-1"
