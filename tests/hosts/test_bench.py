"""The bench of the join, on two container machines: it runs to its end, whatever it measures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(os.geteuid() != 0, reason="containers need root")]
BENCH = Path(__file__).parents[2] / "bench/join.py"


def test_the_bench_compares_the_join_with_its_floor() -> None:
    """The raw commands still make what the join makes, so that there is a floor to compare it with (C8)."""
    command = [sys.executable, str(BENCH), "--without-ansible", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "join / floor: " in done.stdout
