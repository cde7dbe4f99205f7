"""The provider of machines on this computer."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from runcrate_iac.errors import SpecError, StepFailed
from runcrate_iac.machines.local import capacity, cloud_image, process, records, tools, vm
from runcrate_iac.machines.local.accelerator import accelerator
from runcrate_iac.machines.local.clone import Clones
from runcrate_iac.machines.local.cloud_image import CloudImage
from runcrate_iac.machines.local.command import Shape
from runcrate_iac.machines.local.image import golden_image
from runcrate_iac.machines.local.warm import snapshot
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.money import FREE
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import Kind, MachineSpec
from runcrate_iac.paths import machines_dir, private_dir


class LocalProvider:
    """QEMU virtual machines of this user on this computer; their GPUs are simulated."""

    name = "local"

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """One offer, free of charge.

        Raises :class:`SpecError` for other kinds of machines, and where this computer has no room for them.
        """
        if machine.kind is not Kind.VM:
            raise SpecError(f"machine.kind: {machine.kind} is not offered on this computer yet", "kind: vm")
        if machine.image:
            cloud_image.check(machine, Path(machine.image).expanduser())
        capacity.check(machine, nodes, capacity.room())
        return [
            Offer(
                provider=self.name,
                location="this computer",
                network="ethernet",
                kind=machine.kind,
                gpu=machine.gpu,
                gpus_per_machine=machine.gpus,
                gpus_simulated=True,
                machines=nodes,
                price_per_machine=FREE,
            )
        ]

    def prepare(self, machine: MachineSpec, report: Report) -> None:
        """Build the golden image and its warm snapshot, where the cache lacks them."""
        _source(machine, report)

    def reserve(self, request: Reservation, report: Report) -> Sequence[Machine]:
        """Clone every machine at once; those that run are adopted, those that were powered off start again.

        Raises :class:`SpecError` where there is no room for those that are missing, :class:`StepFailed` as soon
        as one can't come up, with the end of its console log.
        """
        missing = request.nodes - len(process.running(f"{request.cluster_id}."))
        if missing > 0:
            capacity.check(request.machine, missing, capacity.room())
        source = _source(request.machine, report)
        private_dir(machines_dir(request.cluster_id))
        return asyncio.run(_all_at_once(request, source, report))

    def list(self, cluster_id: str) -> Sequence[Machine]:
        """Every machine with a folder or a process of this cluster."""
        return records.listed(cluster_id, set(process.running(f"{cluster_id}.")))

    def release(self, cluster_id: str, report: Report) -> None:
        """End the processes, wait until they are gone, and remove their files. What can't be ended stays listed."""
        machines = self.list(cluster_id)
        if process.end(list(process.running(f"{cluster_id}.").values())):
            return
        shutil.rmtree(machines_dir(cluster_id), ignore_errors=True)
        for machine in machines:
            report("released", node_name(machine.index))


def _source(machine: MachineSpec, report: Report) -> vm.Source:
    tools.require(tools.TO_RUN)
    if machine.image:
        image = Path(machine.image).expanduser().absolute()
        found = accelerator(cloud_image.trial_boot(image), report)
        return CloudImage(image, machine.disk, Shape(machine.memory, machine.cpus, found))
    golden = golden_image(report)
    shape = Shape(machine.memory, machine.cpus, accelerator(golden.trial_boot(), report))
    return Clones(golden, snapshot(golden, shape, machine.disk, report), shape)


async def _all_at_once(request: Reservation, source: vm.Source, report: Report) -> Sequence[Machine]:
    """All machines; the first that fails ends the wait for the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(vm.bring_up(i, request, source, report)) for i in range(request.nodes)]
    except* StepFailed as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
