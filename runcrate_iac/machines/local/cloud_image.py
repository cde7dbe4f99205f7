"""Machines that start from an image the user brings: a qcow2 with cloud-init, booted cold with a NoCloud seed."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runcrate_iac.errors import SpecError
from runcrate_iac.machines import lease
from runcrate_iac.machines.local import network, process, records, tools
from runcrate_iac.machines.local.command import OUTER_MAC, Shape, command, option_value, seeded_boot
from runcrate_iac.machines.local.vm import ENDED, start
from runcrate_iac.machines.local.warm import create_overlay
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.spec import MachineSpec
from runcrate_iac.paths import private_dir, write_atomic

POLL = 0.5
_SAID = "runcrate-host-key:"
"""What the guest writes on its serial console before its SSH host key, so that the key is known out of band."""


@dataclass(frozen=True)
class CloudImage:
    """The source of machines that boot the user's image."""

    image: Path
    disk: int
    """Bytes."""
    shape: Shape

    async def make(self, index: int, request: Reservation) -> Machine:
        """A first boot; ends when cloud-init has told the host key on the console."""
        folder = records.folder(request.cluster_id, index)
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in seed(index, request).items():
            write_atomic(private_dir(folder) / "seed" / name, text)
        create_overlay(folder / "disk.qcow2", self.image, self.disk)
        port = await self._start(index, request)
        machine = records.machine(request, index, port)
        records.save(folder, machine)
        host_key = await _told_host_key(folder / "console.log", machine.id)
        machine = machine.model_copy(update={"host_key": host_key})
        records.save(folder, machine)
        return machine

    async def restart(self, known: Machine, request: Reservation) -> Machine:
        """A boot of the machine's own disk; cloud-init knows the instance and leaves it as it is."""
        machine = known.model_copy(update={"port": await self._start(known.index, request)})
        records.save(records.folder(request.cluster_id, known.index), machine)
        return machine

    async def _start(self, index: int, request: Reservation) -> int:
        folder = records.folder(request.cluster_id, index)
        return await start(
            folder,
            lambda port: command(
                self.shape,
                seeded_boot(folder / "seed"),
                folder,
                records.mark(request.cluster_id, index),
                ssh_port=port,
                lan=network.lan_group(request.cluster_id),
                lan_mac=network.lan_mac(index),
            ),
        )


def seed(index: int, request: Reservation) -> dict[str, str]:
    """The files of the NoCloud seed. There is nothing secret in them."""
    keys = list(request.authorized_keys)
    armed = lease.cloud_config(f"{request.deadline:.0f}")
    key_file = "/etc/ssh/ssh_host_ed25519_key.pub"
    user: dict[str, Any] = {
        "users": [
            {"name": "root", "ssh_authorized_keys": keys},
            {
                "name": records.LOGIN,
                "shell": "/bin/bash",
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "ssh_authorized_keys": keys,
            },
        ],
        "disable_root": False,
        "ssh_genkeytypes": ["ed25519"],
        "write_files": armed["write_files"],
        "runcmd": [
            *armed["runcmd"],
            ["sh", "-c", f'echo "{_SAID} $(cut -d" " -f1,2 {key_file})" > /dev/ttyS0'],
        ],
    }
    cards = {
        "outer": {"match": {"macaddress": OUTER_MAC}, "set-name": "outer", "dhcp4": True},
        "lan": {
            "match": {"macaddress": network.lan_mac(index)},
            "set-name": "lan",
            "addresses": [str(network.lan_address(index))],
        },
    }
    name = node_name(index)
    return {
        "meta-data": json.dumps({"instance-id": records.mark(request.cluster_id, index), "local-hostname": name}),
        "user-data": "#cloud-config\n" + yaml.safe_dump(user),
        "network-config": yaml.safe_dump({"version": 2, "ethernets": cards}),
    }


def trial_boot(image: Path) -> list[str]:
    """Start the image itself; what it writes is thrown away."""
    return ["-drive", f"file={option_value(image)},format=qcow2,if=virtio,read-only=on"]


def check(machine: MachineSpec, image: Path) -> None:
    """Raise :class:`SpecError` where ``image`` is no qcow2 file, or larger than the machine's disk."""
    if not image.is_file():
        raise SpecError(f"machine.image: there is no file {image}", "the path of a qcow2 image with cloud-init")
    tools.require(tools.TO_RUN)
    shown = subprocess.run(
        ["qemu-img", "info", "--output=json", "-f", "qcow2", str(image)], check=False, capture_output=True, text=True
    )
    if shown.returncode != 0:
        raise SpecError(f"machine.image: {shown.stderr.strip()}", f"qemu-img convert -O qcow2 {image} image.qcow2")
    size = int(json.loads(shown.stdout)["virtual-size"])
    if size > machine.disk:
        raise SpecError(
            f"machine.disk: {machine.disk.human_readable()} is less than the {size / 1024**3:.1f} GiB of {image}",
            f"disk: {-(-size // 1024**3)}GiB or more",
        )


async def _told_host_key(console: Path, mark: str) -> str:
    while True:
        told = re.search(rf"{_SAID} (ssh-ed25519 \S+)\s", process.console(console))
        if told:
            return told[1]
        if mark not in process.running(mark):
            raise process.NotStarted(ENDED)
        await asyncio.sleep(POLL)
