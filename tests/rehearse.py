"""``make rehearse``: end `up` in every way at every step boundary, recover, and look for machines that are left.

Prints a table; exits 0 only where nothing is left anywhere. Real machines: containers as root, else virtual machines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from runcrate_iac.engine.install import require
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.model.progress import Mark, Step
from runcrate_iac.model.spec import parse
from tests.hosts.conftest import Computer

SECONDS = 600.0
"""How long one command may take before the rehearsal calls it stuck."""
CAME_TO = {0: "ready", 3: "failed", 4: "degraded", 5: "left at once", 130: "interrupted", -signal.SIGKILL: "killed"}

End = Callable[[subprocess.Popen[str], Step], None]


@dataclass(frozen=True)
class Case:
    """End `up` in this way when this step tells this."""

    step: Step
    mark: Mark
    how: str


@dataclass(frozen=True)
class Result:
    """What came of a case."""

    case: Case
    came_to: str
    recovered_by: str
    seconds: float
    left: tuple[str, ...]


def once(number: signal.Signals) -> End:
    """A signal to `up`."""
    return lambda up, step: up.send_signal(number)


def twice(up: subprocess.Popen[str], step: Step) -> None:  # noqa: ARG001
    """Ctrl-C, and again while it rolls back."""
    up.send_signal(signal.SIGINT)
    time.sleep(0.2)
    up.send_signal(signal.SIGINT)


def break_step(up: subprocess.Popen[str], step: Step) -> None:
    """Kill the process that does the step's work, as a bug or a full memory would."""
    wanted = ("runcrate_iac.machines", "reserve") if step is Step.MACHINES else ("runcrate_iac.provision", str(step))
    for process in psutil.Process(up.pid).children(recursive=True):
        if wanted[0] in (words := process.cmdline()) and wanted[1] in words:
            process.kill()


WAYS: dict[str, End] = {
    "SIGINT": once(signal.SIGINT),
    "SIGINT twice": twice,
    "SIGTERM": once(signal.SIGTERM),
    "SIGKILL": once(signal.SIGKILL),
    "the step fails": break_step,
}


def cases() -> Iterator[Case]:
    """Every boundary with every way; a step can only fail once it has started."""
    for step in Step:
        for mark in (Mark.STARTED, Mark.DONE):
            for how, end in WAYS.items():
                if mark is Mark.STARTED or end is not break_step:
                    yield Case(step, mark, how)


def rehearse(computer: Computer, case: Case, number: int, kind: str) -> Result:
    """Bring a cluster up, end it there, recover, and list what is left of it."""
    begun, name = time.monotonic(), f"r{number}"
    spec = computer.spec(name=name, software="none", machine={"kind": kind})
    up = computer.start("up", spec, "--yes", "--json")
    _until_told(computer.home / "clusters" / name / "progress.jsonl", case, up)
    WAYS[case.how](up, case.step)
    up.communicate(timeout=SECONDS)
    recovered_by = "itself" if up.returncode == 3 else "down"
    wrong = []
    if recovered_by == "down" and (down := computer.run("down", name, "--yes")).returncode != 0:
        wrong.append(f"down: exit {down.returncode}: {down.stderr}")
    receipt = json.loads(computer.run("receipt", name, "--json").stdout or "{}")
    if "machines" in receipt and not receipt["all_gone"]:
        wrong.append("the receipt does not prove every machine gone")
    left = [
        machine.id for machine in asyncio.run(provider_of(parse({"name": name})).list(receipt.get("cluster_id", name)))
    ]
    came_to = CAME_TO.get(up.returncode, f"exit {up.returncode}")
    return Result(case, came_to, recovered_by, time.monotonic() - begun, (*left, *computer.leftovers(name), *wrong))


def _until_told(feed: Path, case: Case, up: subprocess.Popen[str]) -> None:
    """Wait until the step tells it, or `up` has ended before."""
    deadline = time.monotonic() + SECONDS
    while up.poll() is None:
        if feed.exists():
            lines = [json.loads(line) for line in feed.read_text().splitlines()]
            if any(e["step"] == case.step and e["mark"] == case.mark and not e["node"] for e in lines):
                return
        if time.monotonic() > deadline:
            sys.exit(f"{case}: never told")
        time.sleep(0.02)


def main() -> None:
    """Run the matrix and print it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kind", choices=("container", "vm"), default="container" if os.geteuid() == 0 else "vm")
    arguments.add_argument("--at-once", type=int, default=2, help="clusters at the same time")
    arguments.add_argument("--only", default="", help="cases whose text has this, such as 'join' or 'SIGKILL'")
    chosen = arguments.parse_args()
    require()
    console = Console(stderr=True)
    every = [case for case in cases() if chosen.only in f"{case.step} {case.mark} {case.how}"]
    with tempfile.TemporaryDirectory(prefix="rehearse-") as home, ThreadPoolExecutor(chosen.at_once) as pool:
        os.environ["RUNCRATE_IAC_HOME"] = home
        computer = Computer(Path(home))
        runs = [pool.submit(rehearse, computer, case, number, chosen.kind) for number, case in enumerate(every)]
        results = []
        for number, run in enumerate(runs, 1):
            results.append(run.result())
            told = f"{results[-1].case.step} {results[-1].case.mark}, {results[-1].case.how}: {results[-1].came_to}"
            console.print(f"{number} of {len(runs)}: {told}", highlight=False)
    table = Table("step", "when", "ended by", "came to", "recovered by", "seconds", "left over")
    for result in results:
        case = result.case
        left = ", ".join(result.left) or "0"
        table.add_row(
            case.step, case.mark, case.how, result.came_to, result.recovered_by, f"{result.seconds:.0f}", left
        )
    Console(width=140).print(table)
    bad = sum(bool(result.left) for result in results)
    print(f"{len(results)} cases on {chosen.kind} machines, {bad} with something left over")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
