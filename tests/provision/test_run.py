"""Running a step from the parent's side: outcome, deadline, cancellation, and nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from runcrate_iac.model.progress import Event
from runcrate_iac.provision import run as running
from runcrate_iac.provision.job import Job
from runcrate_iac.provision.run import log_file, run
from tests.provision.conftest import Loopback


def workers() -> list[psutil.Process]:
    """Workers that this process has started and that run."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended, whether somebody has asked how or not
            found += [child] if "provision.worker" in " ".join(child.cmdline()) else []
    return found


def test_a_step_runs_to_its_outcome(loopback: Loopback, job: Callable[..., Job]) -> None:
    """Events are heard in order, the outcome comes back, the log is a file, and no worker is left."""
    events: list[Event] = []
    todo = job([loopback.server(), loopback.server()])
    outcome = run(todo, events.append)
    assert outcome.ok
    assert [event.message for event in events][:1] == ["software on 2 nodes"]
    assert [event.message for event in events][-1:] == ["done"]
    assert "Connected" in log_file(todo).read_text()
    assert workers() == []


def test_ctrl_c_ends_the_worker(loopback: Loopback, job: Callable[..., Job]) -> None:
    """An interrupt goes on to the caller, and the worker is gone by then (F10)."""

    def interrupt(_event: Event) -> None:
        assert workers()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(job([loopback.server(), loopback.server()]), interrupt)
    assert workers() == []


def test_a_worker_that_dies_is_an_outcome(loopback: Loopback, job: Callable[..., Job]) -> None:
    """A worker that is killed leaves a condition that says so, with where to read on."""

    def kill(event: Event) -> None:
        if "software on" in event.message:
            workers()[0].kill()

    outcome = run(job([loopback.server(), loopback.server()]), kill)
    (condition,) = outcome.conditions
    assert (outcome.ok, condition.reason) == (False, "WorkerDied")
    assert "software.log" in condition.remedy


def test_a_worker_that_hangs_is_killed(
    loopback: Loopback, job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that misses its own deadline is ended from outside, stopped or not."""
    monkeypatch.setattr(running, "GRACE", 1.0)
    monkeypatch.setattr(running, "TERM", 1.0)

    def stop(event: Event) -> None:
        if "software on" in event.message:
            workers()[0].suspend()

    started = time.monotonic()
    outcome = run(job([loopback.server(), loopback.server()], seconds=2), stop)
    assert time.monotonic() - started < 8
    assert (outcome.ok, outcome.conditions[0].reason) == (False, "OutOfTime")
    assert workers() == []


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_the_worker_ends_with_its_parent(
    ending: int, code: int, job: Callable[..., Job], tmp_path: Path, loopback: Loopback
) -> None:
    """Whoever ends the parent, by SIGTERM or SIGKILL, ends the worker too (F10, X2)."""
    with_nobody = job([loopback.machine(1), loopback.machine(2)], seconds=60)
    file = tmp_path / "job.json"
    file.write_text(with_nobody.model_dump_json())
    program = (
        "import sys; from pathlib import Path; from runcrate_iac.provision.job import Job\n"
        "from runcrate_iac.provision.run import run\n"
        "run(Job.model_validate_json(Path(sys.argv[1]).read_text()), lambda event: print(event.message, flush=True))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, file], stdout=subprocess.PIPE, env=os.environ)
    assert parent.stdout
    parent.stdout.readline()
    (worker,) = psutil.Process(parent.pid).children()
    parent.send_signal(ending)
    assert parent.wait(10) == code
    psutil.wait_procs([worker], timeout=10)
    assert not worker.is_running()
    parent.stdout.close()
