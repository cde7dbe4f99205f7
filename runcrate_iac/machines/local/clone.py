"""Machines that go on from the warm snapshot of the golden image."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial

from runcrate_iac.machines.local import identity, network, qmp, records
from runcrate_iac.machines.local.cache import needed_by
from runcrate_iac.machines.local.command import Memory, Shape, command, direct_boot
from runcrate_iac.machines.local.image import Image
from runcrate_iac.machines.local.vm import start
from runcrate_iac.machines.local.warm import Warm, create_overlay
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine
from runcrate_iac.paths import private_dir


@dataclass(frozen=True)
class Clones:
    """The source of machines that start warm, in about a second and the time their identity takes."""

    image: Image
    warm: Warm
    shape: Shape

    async def make(self, index: int, request: Reservation) -> Machine:
        """A clone; its LAN card is plugged in after the resume, since the snapshot has none."""
        folder = records.folder(request.cluster_id, index)
        shutil.rmtree(folder, ignore_errors=True)
        private_dir(folder)
        needed_by(self.warm.folder, folder)
        create_overlay(folder / "disk.qcow2", self.warm.disk)
        memory = Memory(self.warm.memory, shared=False)
        port = await self._start(index, request, memory=memory, lan_mac=None, incoming=True)
        machine = records.machine(request, index, port)
        records.save(folder, machine)
        async with qmp.monitor(folder) as monitor:
            await qmp.load_state(monitor, self.warm.state)
            await qmp.plug_card(monitor, "lan", network.lan_mac(index))
        machine = machine.model_copy(update={"host_key": await identity.give(folder, index, request)})
        records.save(folder, machine)
        return machine

    async def restart(self, known: Machine, request: Reservation) -> Machine:
        """A cold boot of the clone's own disk, on which its identity is."""
        lan_mac = network.lan_mac(known.index)
        port = await self._start(known.index, request, memory=None, lan_mac=lan_mac, incoming=False)
        machine = known.model_copy(update={"port": port})
        records.save(records.folder(request.cluster_id, known.index), machine)
        return machine

    async def _start(
        self, index: int, request: Reservation, *, memory: Memory | None, lan_mac: str | None, incoming: bool
    ) -> int:
        folder = records.folder(request.cluster_id, index)
        words = partial(
            command,
            self.shape,
            direct_boot(self.shape, self.image),
            folder,
            records.mark(request.cluster_id, index),
            memory=memory,
            lan=network.lan_group(request.cluster_id),
            lan_mac=lan_mac,
            incoming=incoming,
        )
        return await start(folder, lambda port: words(ssh_port=port))
