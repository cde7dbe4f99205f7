"""What Slurm is told of nodes and releases: a pure function of what the nodes report of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from runcrate_iac.model.base import Model
from runcrate_iac.model.network import Node
from runcrate_iac.model.spec import MachineSpec

PARTITION = "main"
REAL_GPU, SIMULATED_GPU = "/dev/nvidia", "/dev/simulated-gpu"
"""Device files of GPUs, before their number."""
_MIB_LEFT = (128, 16 * 1024)
"""Bounds (MiB) of the memory that jobs can't have, since the system and Slurm itself need it."""


class Hardware(Model):
    """What one node reports of itself."""

    codename: str
    """The distribution's release: ``bookworm``, ``noble`` …"""
    memory: Annotated[int, Field(gt=0)]
    """MiB, as the kernel counts them (``MemTotal``)."""
    cpus: Annotated[int, Field(gt=0)]
    cores: Annotated[int, Field(gt=0)]
    sockets: Annotated[int, Field(gt=0)]
    cgroup_v2: bool
    """Whether the system has cgroup v2 alone, the unified hierarchy (cgroups(7))."""
    container: bool = False
    """Whether it is a container."""
    gpus: frozenset[str]
    """Device files of its GPUs."""
    key: str = ""
    """The head's munge key; a secret, kept in memory only."""

    @property
    def for_jobs(self) -> int:
        """MiB that jobs may use: a sixteenth is left for the system, within bounds."""
        least, most = _MIB_LEFT
        return max(64, self.memory - min(max(self.memory // 16, least), most))

    @property
    def topology(self) -> str:
        """The processor as slurm.conf(5) has it; just its CPUs where the shape is not a regular one."""
        if self.cores % self.sockets or self.cpus % self.cores:
            return f"CPUs={self.cpus}"
        cores, threads = self.cores // self.sockets, self.cpus // self.cores
        return f"CPUs={self.cpus} Sockets={self.sockets} CoresPerSocket={cores} ThreadsPerCore={threads}"


def parse(lines: Sequence[str]) -> Hardware:
    """The hardware in the lines of ``slurm/hardware.sh.j2``.

    Raises :class:`pydantic.ValidationError` where something is missing.
    """
    told = [line.partition(" ")[::2] for line in lines]
    one = dict(told)
    names = ("cpus", "cores", "sockets")
    return Hardware.model_validate(
        {
            "codename": one.get("codename"),
            "memory": one.get("memory"),
            **dict(zip(names, one.get("processor", "").split(), strict=False)),
            "cgroup_v2": one.get("cgroup") == "v2",
            "container": "container" in one,
            "gpus": [device for word, device in told if word == "gpu"],
            "key": "\n".join(text for word, text in told if word == "key"),
        }
    )


def gpu_device(node: Node) -> str:
    """The device files of the node's GPUs, before their number."""
    return SIMULATED_GPU if node.machine.gpus_simulated else REAL_GPU


def gpus_present(node: Node, hardware: Hardware, declared: int) -> int:
    """How many of the declared GPUs' device files the node has."""
    return sum(f"{gpu_device(node)}{index}" in hardware.gpus for index in range(declared))


def gpu_files(node: Node, declared: int) -> str:
    """The device files of all its GPUs, as gres.conf(5) has them."""
    return gpu_device(node) + ("0" if declared == 1 else f"[0-{declared - 1}]")


def gres(machine: MachineSpec) -> str:
    """The GPUs of a node as Slurm names and counts them: ``gpu:h100:8``."""
    return f"gpu:{machine.gpu.lower()}:{machine.gpus}"


def memory_per_cpu(all_hardware: Mapping[int, Hardware]) -> int:
    """MiB that a job gets with a CPU unless it asks otherwise, so that a whole node's CPUs bring its memory."""
    return min(hardware.for_jobs // hardware.cpus for hardware in all_hardware.values())


def has_cgroups(all_hardware: Mapping[int, Hardware]) -> bool:
    """Whether Slurm can track and confine processes with cgroups.

    Ubuntu 22.04 boots with cgroup v2 alone, and its Slurm 21.08 knows only v1; v2 came with 22.05. A container has not
    all controllers, none where the computer under it uses v1 for them, and may not load filters for devices.
    """
    return all(hardware.codename != "jammy" and not hardware.container for hardware in all_hardware.values())
