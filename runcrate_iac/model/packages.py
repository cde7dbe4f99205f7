"""Names of the distribution packages that each step needs: one table for the golden image and the deploys."""

from __future__ import annotations

from runcrate_iac.model.base import Model

STORAGE_SERVER = ("nfs-kernel-server",)
STORAGE_CLIENT = ("nfs-common",)


class Packages(Model):
    """The packages of one distribution release, by what needs them."""

    join: tuple[str, ...] = ("wireguard-tools", "nftables", "iproute2", "iputils-ping", "openssh-client", "sudo")
    storage_server: tuple[str, ...] = STORAGE_SERVER
    storage_client: tuple[str, ...] = STORAGE_CLIENT
    slurm_head: tuple[str, ...] = ("slurmctld", "slurmdbd", "mariadb-server")
    slurm_node: tuple[str, ...] = ("slurmd", "slurm-client", "munge")
    """``slurmd`` brings the plugins, ``mpi_pmix`` among them; ``slurmdbd`` brings the one for MariaDB."""
    kubernetes: tuple[str, ...] = ("containerd", "runc", "containernetworking-plugins", "conntrack", "ethtool", "socat")
    """What kubeadm and the kubelet stand on; they themselves come from upstream or an artifact directory."""
    ray: tuple[str, ...] = ("python3-venv",)
    launch: tuple[str, ...] = ("pdsh", "iperf3")
    """What starts programs on all nodes (DeepSpeed's launcher), and what measures the network between them (C16)."""
    mpi: tuple[str, ...]
    """An MPI with its compiler wrappers, and the PMIx library that Slurm's plugin loads."""


_COMPILE = ("gcc", "libc6-dev", "openmpi-bin", "libopenmpi-dev")

PACKAGES = {
    "bookworm": Packages(mpi=(*_COMPILE, "libpmix2")),
    "trixie": Packages(mpi=(*_COMPILE, "libpmix2t64")),
    "jammy": Packages(mpi=(*_COMPILE, "libpmix2")),
    "noble": Packages(mpi=(*_COMPILE, "libpmix2t64")),
}
"""By the codename in os-release(5). The t64 names came with the 64-bit time_t transition of 2024."""
