"""Machines of a provider without a cluster: ``python -m runcrate_iac.machines.pool reserve|release < document``.

For programs that bring their own machines to a cluster. The mark is derived from the pool's name and
stack, so that machines are found again without any state of ours; their lease ends them unless a
cluster's join commits them in time.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time

from runcrate_iac import steps
from runcrate_iac.errors import Leftover, SpecError
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.machines.keypair import cluster_key
from runcrate_iac.machines.provider import HasPreparation, Provider, Reservation
from runcrate_iac.machines.registry import provider
from runcrate_iac.machines.step import forget, listed, release_until_gone
from runcrate_iac.model.documents import MachinesJob
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Step


def main() -> None:
    """Reserve or release."""
    verb = sys.argv[1] if len(sys.argv) == 2 else ""  # noqa: PLR2004
    if verb not in ("reserve", "release"):
        raise SpecError("usage: python -m runcrate_iac.machines.pool reserve|release < document")
    job = MachinesJob.model_validate_json(sys.stdin.read())
    source = provider(job.spec.provider)
    _reserve(job, source) if verb == "reserve" else _release(job, source)


def mark(job: MachinesJob) -> str:
    """The mark that every machine of the pool carries."""
    return f"{job.spec.name}-{hashlib.sha256(f'{job.owner}/{job.spec.name}'.encode()).hexdigest()[:8]}"


def argument(machine: Machine) -> dict[str, object]:
    """The machine as the components take it."""
    fields = ("port", "user", "host_key", "identity_file", "endpoint", "gpus_simulated")
    return {"address": machine.host} | {field: getattr(machine, field) for field in fields}


def _reserve(job: MachinesJob, source: Provider) -> None:
    spec, feed = job.spec, Feed(mark(job), Step.MACHINES)
    if not source.list(mark(job)):
        source.offers(spec.machine, spec.nodes)
    if isinstance(source, HasPreparation):
        source.prepare(spec.machine, feed.report)
    identity = cluster_key(mark(job))
    request = Reservation(
        cluster_id=mark(job),
        nodes=spec.nodes,
        machine=spec.machine,
        authorized_keys=(identity.with_suffix(".pub").read_text().strip(),),
        identity_file=identity,
        deadline=time.time() + spec.join_timeout,
    )
    try:
        machines = source.reserve(request, feed.report)
    except BaseException:
        _release(job, source)  # Pulumi does not know a resource that failed, and would never delete it
        raise
    sys.stdout.write(json.dumps([argument(machine) for machine in machines]) + "\n")


def _release(job: MachinesJob, source: Provider) -> None:
    _, left = release_until_gone(mark(job), source, Feed(mark(job), Step.MACHINES).report, time.sleep)
    if left:
        raise Leftover(f"{job.spec.name}: the provider still lists {listed(left)}", "run `pulumi destroy` again")
    forget(mark(job))


if __name__ == "__main__":
    steps.main(main)
