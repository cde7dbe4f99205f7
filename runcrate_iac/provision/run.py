"""Running a step: start the worker, feed it, hear it, and never outlive its deadline.

Imports neither pyinfra nor gevent: this runs in processes that hold Pulumi's gRPC.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from pydantic import ValidationError

from runcrate_iac import paths
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.progress import Event, Outcome
from runcrate_iac.provision.job import Job, Line

GRACE = 10.0
"""Seconds after the deadline in which the worker says for itself what it waited for."""
LOOK_SECONDS = 5.0
TERM = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_TAIL = 5
"""Lines of the log that a condition quotes."""


def run(job: Job, on_event: Callable[[Event], None], dead: Callable[[], list[Condition]] = list) -> Outcome:
    """Run one step to its end and return how it ended; never raises for what goes wrong on nodes.

    ``on_event`` hears each event in this thread. ``dead`` is asked in another, every :data:`LOOK_SECONDS`, why machines
    do not run any more: a reason ends the worker, and is the outcome. The log is ``logs/<step>.log`` in the cluster's
    folder. The worker is ended on the way out whatever happens: at its deadline, by Ctrl-C (:class:`KeyboardInterrupt`
    goes on), by SIGTERM (:class:`SystemExit` 143, where the program has no handler of its own), and by an exception of
    ``on_event``.
    """
    log = log_file(job)
    paths.private_dir(log.parent)
    with log.open("w") as stderr, _terminable():
        worker = subprocess.Popen(
            [sys.executable, "-m", "runcrate_iac.provision.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        # A timer, since reading lines has no time limit of its own.
        late = threading.Timer(max(0.0, job.deadline + GRACE - time.time()), _end, [worker])
        late.daemon = True
        late.start()
        stop, found = threading.Event(), list[Condition]()
        looking = threading.Thread(target=_look, args=(dead, worker, stop, found), daemon=True)
        looking.start()
        try:
            outcome = _converse(worker, job, on_event)
        finally:
            stop.set()
            late.cancel()
            _end(worker)
            _close(worker)
    if found:
        return Outcome(step=job.step, ok=False, conditions=tuple(found))
    return outcome or _silent(job, worker.returncode, log)


def _look(
    dead: Callable[[], list[Condition]], worker: subprocess.Popen[str], stop: threading.Event, found: list[Condition]
) -> None:
    while not stop.wait(LOOK_SECONDS):
        if reasons := dead():
            found += reasons
            _end(worker)
            return


def log_file(job: Job) -> Path:
    """The log of the last run of this step."""
    return paths.cluster_dir(job.spec.name) / "logs" / f"{job.step}.log"


def _converse(worker: subprocess.Popen[str], job: Job, on_event: Callable[[Event], None]) -> Outcome | None:
    """Send the job, hear every line; the outcome, or None where the worker ended without one."""
    stdin, stdout = _pipes(worker)
    try:
        stdin.write(job.model_dump_json() + "\n")
        stdin.flush()
    except BrokenPipeError:
        return None
    for text in stdout:
        try:
            line = Line.model_validate_json(text)
        except ValidationError:
            # Half a line: the worker was killed while it wrote.
            return None
        if line.event:
            on_event(line.event)
        if line.outcome:
            return line.outcome
    return None


def _pipes(worker: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if worker.stdin is None or worker.stdout is None:
        msg = "the worker was started without pipes"
        raise RuntimeError(msg)
    return worker.stdin, worker.stdout


def _end(worker: subprocess.Popen[str]) -> None:
    """End the worker and whatever it started; no error where it has ended already."""
    for ending in (signal.SIGTERM, signal.SIGKILL):
        try:
            # The worker leads its own process group, so that nothing it started is left.
            os.killpg(worker.pid, ending)
        except ProcessLookupError:
            break
        try:
            worker.wait(TERM)
        except subprocess.TimeoutExpired:
            continue
    worker.wait()


def _close(worker: subprocess.Popen[str]) -> None:
    for pipe in _pipes(worker):
        # What was not sent any more goes nowhere.
        with suppress(BrokenPipeError):
            pipe.close()


def _silent(job: Job, returncode: int, log: Path) -> Outcome:
    lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
    late = time.time() >= job.deadline
    condition = Condition(
        type="Worker",
        status=Status.UNKNOWN,
        reason="OutOfTime" if late else "WorkerDied",
        message=f"the {job.step} worker ended with code {returncode} and said no outcome: " + " / ".join(lines),
        remedy=f"read {log} and run the step again",
    )
    return Outcome(step=job.step, ok=False, conditions=(condition,))


@contextmanager
def _terminable() -> Iterator[None]:
    """While the worker runs, SIGTERM unwinds this process instead of killing it, so that the worker is ended."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    mine = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if mine:
        signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
