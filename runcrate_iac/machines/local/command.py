"""The QEMU command line: a pure function, and the part of it that a warm snapshot depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runcrate_iac.machines.local.image import Image
from runcrate_iac.machines.local.tools import QEMU

MACHINE = "pc"
"""The machine type whose PCI bus takes a card while the guest runs, without a port reserved for it."""
OUTER_MAC = "52:54:00:72:63:00"
"""The same in every node: each has its user-mode network for itself, and the snapshot holds it."""
CODE_CACHE = 256
"""MiB of translated code that TCG keeps; its default grows to 1 GiB per machine."""


@dataclass(frozen=True)
class Shape:
    """What the guest sees of its machine."""

    memory: int
    """Bytes."""
    cpus: int
    accelerator: str
    """``kvm``, ``hvf`` or ``tcg``."""


@dataclass(frozen=True)
class Memory:
    """A file that holds the guest's memory."""

    file: Path
    shared: bool
    """Writes go to the file; else they stay private to the process, and clones share what they only read."""


def devices(shape: Shape) -> list[str]:
    """The machine as the guest sees it; a snapshot resumes only under an equal one."""
    accelerator = f"tcg,tb-size={CODE_CACHE}" if shape.accelerator == "tcg" else shape.accelerator
    cpu = "max" if shape.accelerator == "tcg" else "host"
    return [
        *("-machine", f"{MACHINE},memory-backend=ram", "-accel", accelerator, "-cpu", cpu),
        *("-smp", str(shape.cpus), "-m", f"{shape.memory // 1024**2}M"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-serial", "chardev:console"),
        *("-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci", "-device", "vmgenid,guid=auto"),
        *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
        *("-device", f"virtio-net-pci,netdev=outer,mac={OUTER_MAC},romfile="),
    ]


def kernel_arguments(shape: Shape) -> str:
    """The kernel's command line. Mitigations protect nothing where the CPU is emulated, and cost much there."""
    mitigations = " mitigations=off" if shape.accelerator == "tcg" else ""
    return f"root=/dev/vda rw console=ttyS0{mitigations}"


def direct_boot(shape: Shape, image: Image) -> list[str]:
    """Start the image's kernel directly, without firmware and boot loader."""
    return ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", kernel_arguments(shape)]


def seeded_boot(seed: Path) -> list[str]:
    """Start by the disk's own boot loader, with a NoCloud seed: a read-only FAT disk made of the folder's files."""
    drive = f"driver=vvfat,node-name=seed,dir={option_value(seed)},label=cidata,read-only=on"
    return ["-blockdev", drive, "-device", "virtio-blk-pci,drive=seed"]


def command(
    shape: Shape,
    boot: Sequence[str],
    folder: Path,
    mark: str,
    *,
    memory: Memory | None = None,
    ssh_port: int | None = None,
    lan: str | None = None,
    lan_mac: str | None = None,
    incoming: bool = False,
) -> list[str]:
    """Start one machine, as a daemon, on ``folder/disk.qcow2``; it is to be called in that folder.

    Sockets are named relative to the folder, since the path of a Unix socket has 107 characters at most.
    ``lan`` is a multicast ``group:port``; without ``lan_mac`` its card is to be plugged in later.
    ``incoming`` waits for a state instead of booting.
    """
    size = f"{shape.memory // 1024**2}M"
    backend = f"memory-backend-ram,id=ram,size={size}"
    if memory:
        share = "on" if memory.shared else "off"
        backend = f"memory-backend-file,id=ram,size={size},mem-path={option_value(memory.file)},share={share}"
    forward = f",hostfwd=tcp:127.0.0.1:{ssh_port}-:22" if ssh_port else ""
    return [
        *(QEMU, "-name", f"guest={mark}", "-daemonize", "-object", backend),
        *("-chardev", f"file,id=console,path={option_value(folder / 'console.log')},append=on"),
        *("-chardev", "socket,id=agent,path=agent.sock,server=on,wait=off"),
        *("-qmp", "unix:qmp.sock,server=on,wait=off"),
        *("-drive", f"id=disk,file={option_value(folder / 'disk.qcow2')},format=qcow2,if=none,discard=unmap"),
        *("-netdev", f"user,id=outer{forward}"),
        *(("-netdev", f"socket,id=lan,mcast={lan},localaddr=127.0.0.1") if lan else ()),
        *devices(shape),
        *(("-device", f"virtio-net-pci,netdev=lan,mac={lan_mac},romfile=") if lan_mac else ()),
        *boot,
        *(("-incoming", "defer") if incoming else ()),
    ]


def option_value(path: Path) -> str:
    """``path`` as a value in QEMU's option syntax, where a comma is written twice."""
    return str(path).replace(",", ",,")
