"""Machines of a provider without a cluster: ``python -m runcrate_iac.machines.pool reserve|release < document``.

For programs that bring their own machines to a cluster. The mark is derived from the pool's name, stack and
state folder, so that machines are found again though nothing is known of them here; their lease ends them
unless a cluster's join commits them in time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runcrate_iac import steps
from runcrate_iac.errors import Leftover, Refused, SpecError
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.machines import fleet, growth, step
from runcrate_iac.machines.provider import HasPreparation, Provider
from runcrate_iac.machines.registry import FAULTS, provider, provider_of
from runcrate_iac.machines.watch import within
from runcrate_iac.model.artifacts import preload
from runcrate_iac.model.documents import MachinesJob
from runcrate_iac.model.network import Machine, MachineState
from runcrate_iac.model.offer import JOIN_SECONDS
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import MOST_NODES, parse
from runcrate_iac.paths import cluster_dir, state_dir, write_atomic

_RECORD = "pool"
"""A file in the pool's folder, from before the first machine to after the last one: the stack that it belongs to, in a
second line how many machines the stack has of it, and in a third one how often some of them had to be started again."""
_RUNS = frozenset({MachineState.BOOTING, MachineState.RUNNING})


def main() -> None:
    """Reserve or release."""
    verb = sys.argv[1] if len(sys.argv) == 2 else ""  # noqa: PLR2004
    if verb not in ("reserve", "update", "release"):
        raise SpecError("usage: python -m runcrate_iac.machines.pool reserve|update|release < document")
    job = MachinesJob.model_validate_json(sys.stdin.read())
    if verb != "reserve" and not cluster_dir(mark(job)).exists():  # it stays when the pool has ended
        others = [one for one in pools().items() if one[0].rpartition("-")[0] == job.spec.name]
        raise steps.unknown(f"pool {job.spec.name}", "", job.owner, others)
    source = source_of(job)
    if verb != "release":
        refuse_shrinking(job)
        _prepare(job, source)
    asyncio.run(_release(job, source) if verb == "release" else _reserve(job, source))


def mark(job: MachinesJob) -> str:
    """The mark that every machine of the pool carries.

    It is another one in another state folder, whose machines are not ours to end; a pool that is known here keeps its
    own, so that the folder may be moved.
    """
    name, place = job.spec.name, state_dir().resolve()
    known = [mark for mark, stack in pools().items() if (mark.rpartition("-")[0], stack) == (name, job.owner)]
    digest = hashlib.sha256(f"{place}/{job.owner}/{name}".encode()).hexdigest()
    return known[0] if known else f"{name}-{digest[:8]}"


def source_of(job: MachinesJob) -> Provider:
    """The provider of the pool's machines, whose faults are counted in the pool's own folder."""
    return provider_of(job.spec.model_copy(update={"name": mark(job)}))


def argument(machine: Machine) -> dict[str, object]:
    """The machine as the components take it."""
    fields = ("port", "user", "host_key", "identity_file", "endpoint", "gpus_simulated")
    return {"address": machine.host} | {field: getattr(machine, field) for field in fields}


def pools() -> dict[str, str]:
    """The stack of every pool that may have machines, by its mark: to the ledger they belong to nothing."""
    files = (state_dir() / "clusters").glob(f"*/{_RECORD}")
    return {file.parent.name: file.read_text().partition("\n")[0] for file in files}


def end(mark: str) -> None:
    """Release a pool whose stack is gone, by its mark.

    Raises :class:`Leftover` where a machine can't be proved gone.
    """
    job = MachinesJob(spec=parse({"name": mark.rpartition("-")[0]}), owner=pools()[mark])
    asyncio.run(_release(job, source_of(job)))


def move(mark: str, owner: str) -> None:
    """Note that the pool's stack has this name now."""
    record = cluster_dir(mark) / _RECORD
    write_atomic(record, "\n".join([owner, *record.read_text().split("\n")[1:]]))


def refuse_shrinking(job: MachinesJob) -> None:
    """Raise :class:`Refused` where the stack has more machines of the pool than are declared now."""
    if job.spec.nodes < (made := _known(job)[0]):
        raise Refused(
            f"pool {job.spec.name}: nodes: {made} are running, {job.spec.nodes} are asked: a pool ends whole, and a"
            " cluster may have taken its machines (C7)",
            f"nodes={made} or more, or take another name",
        )


def repairs(job: MachinesJob) -> int:
    """How often machines of the pool were started again: one more where some that the stack has do not run now.

    For a program, whose event loop runs already; its provider is asked, and no fault of a rehearsal is used up.
    """
    made, before = _known(job)
    if not made:
        return before
    with ThreadPoolExecutor(1) as thread:
        asked = provider(job.spec.provider).list(mark(job))
        machines: Sequence[Machine] = thread.submit(asyncio.run, within(asked)).result()
    return before + (len([one for one in machines if one.index < made and one.state in _RUNS]) < made)


def _record(job: MachinesJob) -> Path:
    return cluster_dir(mark(job)) / _RECORD


def _known(job: MachinesJob) -> tuple[int, int]:
    """How many machines the stack has of the pool, 0 where no reservation has succeeded, and the repairs until then."""
    record = _record(job)
    lines = record.read_text().splitlines()[1:] if record.exists() else []
    made, repaired, *_ = [int(line or 0) for line in lines] + [0, 0]
    return made, repaired


def _note(job: MachinesJob, made: int, repaired: int) -> None:
    write_atomic(_record(job), f"{job.owner}\n{made}\n{repaired}\n")


def _prepare(job: MachinesJob, source: Provider) -> None:
    there = {machine.index for machine in asyncio.run(source.list(mark(job)))}
    if missing := len(set(range(job.spec.nodes)) - there):
        growth.offer(job.spec, missing, source)
    if isinstance(source, HasPreparation):
        source.prepare(job.spec.machine, preload(job.spec), Feed(mark(job), Step.MACHINES).report)


async def _reserve(job: MachinesJob, source: Provider) -> None:
    spec, feed, (made, repaired) = job.spec, Feed(mark(job), Step.MACHINES), _known(job)
    _note(job, made, repaired)
    seconds = float(spec.join_timeout or JOIN_SECONDS)
    request = step.request_for(spec.model_copy(update={"name": mark(job)}), mark(job), time.time() + seconds)
    try:
        machines = await fleet.bring_up(
            request, source, seconds, lambda _: None, feed.report, hidden=source.listing_delay
        )
    except BaseException:
        # Pulumi keeps what it had of a resource that failed, and would never delete the rest
        await _release(job, source, first=made)
        raise
    _note(job, spec.nodes, job.repairs)
    sys.stdout.write(json.dumps([argument(machine) for machine in machines]) + "\n")


async def _release(job: MachinesJob, source: Provider, *, first: int = 0) -> None:
    """Release the machines from number ``first`` on; with the last one goes what is known of the pool here."""
    report, nodes = Feed(mark(job), Step.MACHINES).report, range(first, MOST_NODES)
    _, left = await fleet.release(mark(job), source, report, hidden=source.listing_delay, nodes=nodes)
    if left:
        again = "pulumi up" if first else "pulumi destroy"
        raise Leftover(f"{job.spec.name}: the provider still lists {fleet.listed(left)}", f"run `{again}` again")
    if first:
        return
    step.forget(mark(job))
    for name in (FAULTS, _RECORD):  # the mark stays the same, and the next pool's rehearsal begins anew
        (cluster_dir(mark(job)) / name).unlink(missing_ok=True)


if __name__ == "__main__":
    steps.main(main)
