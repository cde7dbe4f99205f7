"""One node's container machine: made, started again or adopted, until SSH answers on it; listed; deleted."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from runcrate_iac.errors import Leftover
from runcrate_iac.machines.local import records
from runcrate_iac.machines.local.cache import needed_by
from runcrate_iac.machines.local.container import identity, network, process
from runcrate_iac.machines.local.process import NotStarted
from runcrate_iac.machines.local.waiting import failing_as, greets, telling
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import machines_dir, private_dir

BANNER_SECONDS = 1.0
POLL = 0.2


async def bring_up(index: int, request: Reservation, image: Path, report: Report) -> Machine:
    """The machine of node ``index``, once SSH answers on it; ``image`` is the root file system it starts from.

    Raises :class:`~runcrate_iac.errors.StepFailed` with the end of its console log as soon as it can't come up.
    """
    name, mark = node_name(index), records.mark(request.cluster_id, index)
    folder = records.folder(request.cluster_id, index)
    begun = time.monotonic()
    async with failing_as(name, folder, request.deadline), telling(name, report):
        machine = records.load(folder)
        if machine is None or process.running(mark, folder) is None:
            machine = _start(index, request, image, again=machine)
        await _answers(machine, mark, folder)
    report(f"SSH answers at {machine.host} ({time.monotonic() - begun:.1f} s)", name)
    return machine


def listed(cluster_id: str) -> Sequence[Machine]:
    """Every machine of the cluster that has a folder, by index."""
    folders = {folder.name: folder for folder in machines_dir(cluster_id).glob("node-*")}
    running = {
        mark for name, folder in folders.items() if process.running(mark := f"{cluster_id}.{name}", folder) is not None
    }
    return records.listed(cluster_id, running)


async def delete(machine: Machine) -> None:
    """End it and remove what it had; the last one takes the cluster's network with it.

    Raises :class:`Leftover` where its processes can't be ended.
    """
    cluster_id = records.cluster_of(machine)
    folder, place = records.folder(cluster_id, machine.index), machines_dir(cluster_id)
    pid = process.running(machine.id, folder)
    if pid is not None and not await process.end(pid):
        raise Leftover(f"{machine.id}: process group {pid} does not end", f"kill -9 -{pid}")
    # No other task of ours comes in between here: just one can be the last
    process.remove_cgroups(folder)
    if not [other for other in place.glob("node-*") if other != folder]:
        network.remove(cluster_id)
        shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _start(index: int, request: Reservation, image: Path, again: Machine | None) -> Machine:
    """Start the machine, on the disk it left where there is one; nothing is awaited, so nothing is left half done."""
    mark, folder = records.mark(request.cluster_id, index), records.folder(request.cluster_id, index)
    upper = folder / "upper"
    if again is None:
        shutil.rmtree(folder, ignore_errors=True)
    private_dir(upper).chmod(0o755)
    needed_by(image.parent, folder)
    subnet = network.ensure(request.cluster_id)
    address = network.address(subnet, index)
    identity.give_address(upper, image, address, subnet)
    if again is None or identity.has_lease(upper):
        identity.give_lease(upper, image, request)
    host_key = again.host_key if again else identity.give(upper, image, index, request)
    known = {"host": str(address), "endpoint": str(address), "host_key": host_key}
    machine = records.machine(request, index, 22).model_copy(update=known)
    records.save(folder, machine)
    process.start(process.command(mark, image, network.namespace(request.cluster_id)), folder)
    return machine


async def _answers(machine: Machine, mark: str, folder: Path) -> None:
    while not await greets(machine, BANNER_SECONDS):
        if process.running(mark, folder) is None:
            raise NotStarted("it powered off, or did not start")
        await asyncio.sleep(POLL)
