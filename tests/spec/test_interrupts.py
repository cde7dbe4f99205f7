"""What interrupts come to, sent to a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
from signal import SIGHUP, SIGINT, SIGTERM

import pytest

WORKS = """
import sys
from runcrate_iac.engine.interrupts import Interrupts
with Interrupts("demo", "rolling back") as interrupts:
    print("works", flush=True)
    while sys.stdin.readline():  # until it is closed; each line asks for an answer
        print("undoes" if interrupts.asked else "works", flush=True)
"""


def told(process: subprocess.Popen[str]) -> str:
    """What the process says that it does; nothing where it has ended."""
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write("?\n")
        process.stdin.flush()
    except BrokenPipeError:
        return ""
    return process.stdout.readline().strip()


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ((SIGHUP, SIGHUP), 0),  # a shell, then the kernel
        ((SIGTERM, SIGHUP), 0),  # systemd
        ((SIGHUP, SIGHUP, SIGTERM, SIGHUP), 0),  # both
        ((SIGINT, SIGTERM), 0),  # CI services
        ((SIGINT, SIGINT), 5),
        ((SIGHUP, SIGINT), 5),
    ],
)
def test_only_a_second_ctrl_c_leaves_at_once(signals: tuple[signal.Signals, ...], code: int) -> None:
    """Whatever signals programs send for one end, the work is undone in order; Ctrl-C after one leaves (F10)."""
    command, pipe = [sys.executable, "-c", WORKS], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().strip() == "works"
        for number in signals:
            process.send_signal(number)
            while told(process) == "works":
                pass
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.count("rolling back") == 1
    assert ("left at once" in said) == (code == 5)
