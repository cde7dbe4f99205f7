"""The child process in which pyinfra runs: ``python -m runcrate_iac.provision.worker``.

Standard input: a :class:`~runcrate_iac.provision.job.Job` on one line; then it stays open for as long as the work is
wanted, and closing it cancels. Standard output: one :class:`~runcrate_iac.provision.job.Line` per line, the outcome
last. Standard error: the log. Exit codes: :class:`~runcrate_iac.provision.job.Exit`.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import os  # noqa: E402 - gevent patches before anything else is imported
import sys  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

import gevent  # noqa: E402
from gevent.fileobject import FileObject  # noqa: E402
from pydantic import ValidationError  # noqa: E402

from runcrate_iac.errors import SpecError  # noqa: E402
from runcrate_iac.model.conditions import Condition, Status  # noqa: E402
from runcrate_iac.model.progress import Mark, Outcome, Step  # noqa: E402
from runcrate_iac.model.spec import Software  # noqa: E402
from runcrate_iac.model.storage import has_shared_folder  # noqa: E402
from runcrate_iac.provision.emit import Emitter  # noqa: E402
from runcrate_iac.provision.findings import collected  # noqa: E402
from runcrate_iac.provision.job import Exit, Job  # noqa: E402
from runcrate_iac.provision.session import Session, load  # noqa: E402
from runcrate_iac.provision.tell import listen  # noqa: E402
from runcrate_iac.provision.waits import TYPES, Waits  # noqa: E402

HEART_BEAT = 10.0
"""Seconds after which a node that still waits for the same thing is told again."""

OTHERS_FAIL = 2.0
"""Seconds in which other nodes can say that they fail too, once one has for good: nodes often fail together."""

_SOFTWARE: dict[Software, tuple[list[str], list[str]]] = {
    Software.NONE: ([], []),
    Software.SLURM: (["slurm.slurm"], ["slurm.check"]),
    Software.KUBERNETES: (["kubernetes.kubernetes"], ["kubernetes.check"]),
    Software.RAY: (["ray.ray"], ["ray.check"]),
}
"""By software, the deploys that install it and those that check it."""


def deploys(job: Job) -> list[str]:
    """``file.function`` of the deploys of a step, in order."""
    install, check = _SOFTWARE[job.spec.software]
    shared = has_shared_folder(job.spec.machine)
    return {
        Step.MACHINES: [],
        Step.JOIN: ["preflight.preflight", "mesh.mesh", "reach.reach", "lease.disarm"],
        Step.STORAGE: [*(["storage.storage"] if shared else []), "hostfile.hostfile", "launch.launch", "gpus.gpus"],
        Step.SOFTWARE: install,
        Step.SETUP: ["setup.setup"],
        Step.CHECK: [
            *("reach.check", "checks.checks"),
            *check,
            *(["setup.check"] if job.spec.setup else []),
        ],
    }[job.step]


def main() -> NoReturn:
    """Do the job on standard input and leave with its exit code."""
    stdin = FileObject(0, "rb", closefd=False)
    try:
        job = Job.model_validate_json(stdin.readline())
    except ValidationError as error:
        # Without the values: there may be secrets among them.
        sys.stderr.write(f"not a job: {error.errors(include_input=False, include_url=False)}\n")
        os._exit(Exit.JOB_REFUSED)
    gevent.spawn(_leave_when_closed, stdin)
    emitter = Emitter(job.step)
    waits = Waits(job.step, [node.name for node in job.plan.nodes])
    gevent.spawn(_heart_beat, emitter, waits)
    emitter.event(Mark.STARTED, f"{job.step} on {len(job.plan.nodes)} nodes")
    try:
        code, outcome = _work(job, emitter, waits)
    except SpecError as error:
        code, outcome = Exit.JOB_REFUSED, _broke(job, "JobRefused", error.message, error.remedy)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        traceback.print_exc()
        code, outcome = Exit.BROKEN, _broke(job, "WorkerBroke", f"{type(error).__name__}: {error}", "see the log")
    emitter.outcome(outcome)
    # Not sys.exit: that would wait for the threads of SSH connections that never answered.
    sys.stderr.flush()
    os._exit(code)


def _work(job: Job, emitter: Emitter, waits: Waits) -> tuple[Exit, Outcome]:
    session = Session(job, emitter, waits, listen())
    run = gevent.spawn(session.run, [load(name) for name in deploys(job)])
    ends: list[Any] = [run, session.hopeless]
    gevent.wait(ends, timeout=max(0.0, job.deadline - time.time()), count=1)
    if session.hopeless.is_set():
        run.join(timeout=OTHERS_FAIL)
    if run.exception is not None:
        raise run.exception
    late = () if session.hopeless.is_set() else waits.out_of_time()
    conditions = (*collected(), *late)
    outcome = run.value or Outcome(step=job.step, ok=False, conditions=conditions, reached=session.connected)
    if outcome.ok:
        return Exit.CONVERGED, outcome
    return Exit.OPERATION_FAILED if session.connected else Exit.NOT_CONNECTED, outcome


def _broke(job: Job, reason: str, message: str, remedy: str) -> Outcome:
    condition = Condition(type=TYPES[job.step], status=Status.UNKNOWN, reason=reason, message=message, remedy=remedy)
    return Outcome(step=job.step, ok=False, conditions=(*collected(), condition))


def _leave_when_closed(stdin: Any) -> None:
    while stdin.read(4096):
        pass
    sys.stderr.write("cancelled: standard input was closed\n")
    os._exit(Exit.BROKEN)


def _heart_beat(emitter: Emitter, waits: Waits) -> None:
    while True:
        gevent.sleep(HEART_BEAT)
        for node, sentence in waits.long(HEART_BEAT):
            emitter.event(Mark.PROGRESS, sentence, node)


if __name__ == "__main__":
    main()
