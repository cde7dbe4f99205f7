"""The provider of machines on this computer: virtual machines; on Linux, for root, containers too."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runcrate_iac.errors import SpecError
from runcrate_iac.machines.local import capacity, cloud_image, marks, process, records, tools, vm
from runcrate_iac.machines.local.accelerator import accelerator
from runcrate_iac.machines.local.clone import Clones
from runcrate_iac.machines.local.cloud_image import CloudImage
from runcrate_iac.machines.local.command import Shape
from runcrate_iac.machines.local.container import host, network
from runcrate_iac.machines.local.container import machine as container
from runcrate_iac.machines.local.container.tree import root_tree
from runcrate_iac.machines.local.image import golden_image
from runcrate_iac.machines.local.preload import load
from runcrate_iac.machines.local.warm import snapshot
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.artifacts import Preload
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import Kind, MachineSpec
from runcrate_iac.paths import machines_dir, private_dir


class LocalProvider:
    """QEMU virtual machines of this user on this computer; their GPUs are simulated."""

    name = "local"
    listing_delay = 0.0

    def __init__(self) -> None:
        """Nothing is looked at before it is needed."""
        self._sources: dict[tuple[MachineSpec, Preload | None], vm.Source] = {}

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """One offer, free of charge.

        Raises :class:`SpecError` for other kinds of machines, and where this computer has no room for them.
        """
        _check(machine, nodes)
        return [Offer.of(machine, nodes, provider=self.name, location="this computer", gpus_simulated=True)]

    def prepare(self, machine: MachineSpec, preload: Preload | None, report: Report) -> None:
        """Build what such machines start from, where the cache lacks it; only our own image of VMs is preloaded."""
        if machine.kind is Kind.CONTAINER:
            root_tree(report)
        else:
            self._sources[machine, preload] = _source(machine, preload, report)

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:
        """Make the machine and wait for its SSH; one that was powered off starts again from its disk.

        Raises :class:`SpecError` where there is no room for it, :class:`~runcrate_iac.errors.StepFailed` with the end
        of its console log where it can't come up.
        """
        if request.machine.kind is Kind.CONTAINER:
            host.raise_limits(request.nodes, report)
            return await container.bring_up(index, request, root_tree(report), report)
        if records.mark(request.cluster_id, index) not in process.running(f"{request.cluster_id}."):
            capacity.check(request.machine, 1, capacity.room())
        wanted = request.machine, request.preload
        if wanted not in self._sources:
            self._sources[wanted] = await asyncio.to_thread(_source, *wanted, report)
        private_dir(machines_dir(request.cluster_id))
        return await vm.bring_up(index, request, self._sources[wanted], report)

    async def list(self, cluster_id: str) -> Sequence[Machine]:
        """Every machine with a folder or a process of this cluster."""
        if network.exists(cluster_id):
            return container.listed(cluster_id)
        return records.listed(cluster_id, set(process.running(f"{cluster_id}.")))

    async def marks(self) -> Sequence[str]:
        """Every cluster with a folder or a process of this state folder."""
        return await asyncio.to_thread(marks.marks)

    async def delete(self, machine: Machine, report: Report) -> None:
        """End its process, wait until it is gone, and remove its files. What can't be ended stays listed."""
        cluster_id = records.cluster_of(machine)
        if network.exists(cluster_id):
            await container.delete(machine)
            report("released", node_name(machine.index))
            return
        found = [running for mark, running in process.running(machine.id).items() if mark == machine.id]
        if await asyncio.to_thread(process.end, found):
            return
        await asyncio.to_thread(shutil.rmtree, records.folder(cluster_id, machine.index), ignore_errors=True)
        with suppress(OSError):  # the last one takes the cluster's folder with it
            machines_dir(cluster_id).rmdir()
        report("released", node_name(machine.index))


def _check(machine: MachineSpec, nodes: int) -> None:
    """Raise :class:`SpecError` where this computer can't give such machines, or has no room for them."""
    if machine.kind is Kind.CONTAINER:
        host.check(machine, nodes, capacity.room())
        return
    if machine.kind is not Kind.VM:
        raise SpecError(f"machine.kind: {machine.kind} is not offered on this computer", "kind: vm, or kind: container")
    if machine.image:
        cloud_image.check(machine, Path(machine.image).expanduser())
    capacity.check(machine, nodes, capacity.room())


def _source(machine: MachineSpec, preload: Preload | None, report: Report) -> vm.Source:
    tools.require(tools.TO_RUN)
    if machine.image:
        image = Path(machine.image).expanduser().absolute()
        found = accelerator(cloud_image.trial_boot(image), report)
        return CloudImage(image, machine.disk, Shape(machine.memory, machine.cpus, found))
    golden = golden_image(report)
    shape = Shape(machine.memory, machine.cpus, accelerator(golden.trial_boot(), report))
    brought = load(preload) if preload else None
    return Clones(golden, snapshot(golden, shape, machine.disk, brought, report), shape)
