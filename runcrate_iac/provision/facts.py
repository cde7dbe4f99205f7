"""What a machine says of itself before anything on it is changed: the lines of ``checks/preflight.sh.j2``, parsed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from itertools import pairwise

from runcrate_iac.model.base import Model
from runcrate_iac.model.network import INTERFACE, PRIVATE_NETWORK

_ROUTE_TYPES = {"local", "broadcast", "multicast", "unreachable", "prohibit", "blackhole", "throw", "unicast", "nat"}
"""What may stand before a route's target (ip-route(8))."""
PODS = "veth"
"""What the interfaces of pods begin with, which have routes of the pods' network."""
_NETWORK_FILE_SYSTEMS = re.compile(
    r"nfs4?|cifs|smb3|ceph|lustre|beegfs|gpfs|afs|9p|virtiofs|fuse\.(sshfs|glusterfs|ceph.*)"
)


class Disk(Model):
    """A file system."""

    device: str
    type: str
    free: int
    """Bytes."""
    path: str
    """Where it is mounted."""

    @property
    def is_remote(self) -> bool:
        """Whether other machines may have the same files."""
        return _NETWORK_FILE_SYSTEMS.fullmatch(self.type) is not None


class Facts(Model):
    """One machine. What it could not tell is empty or 0."""

    offset: float
    """Seconds that its clock is ahead of this computer's, to about a second."""
    synchronised: bool = False
    """A time service keeps its clock, from a source."""
    sudo: str = ""
    """What sudo said where it did not let the login user in; empty where it did, or where that user is root."""
    apt: bool = True
    """It has Debian's package manager."""
    lacks: tuple[str, ...] = ()
    """Programs of the join's packages that are not installed yet."""
    joined: bool = False
    """It was a node before."""
    cluster: str = ""
    """The id of the cluster that it is in by its own word; only machines that no provider ends have one."""
    node: str = ""
    """Which of that cluster's nodes it is by its own word, where it tells."""
    leased: bool = False
    """It will leave that cluster, unless a join is complete before."""
    release: str = ""
    """The distribution release's codename in os-release(5): ``bookworm``, ``noble`` …"""
    system: str = "unknown"
    """Its name for people."""
    architecture: str = ""
    memory: int = 0
    """Bytes, as the kernel counts them (``MemTotal``)."""
    cpus: int = 0
    machine_id: str = ""
    uid: str = ""
    """The number of the login user."""
    host_keys: tuple[str, ...] = ()
    """``type base64`` of its SSH host keys."""
    container: bool = False
    """It has no kernel of its own."""
    wireguard: str = ""
    """``kernel``, ``tun`` where only the user-space one can run, or empty."""
    gpus: tuple[str, ...] = ()
    """The models of its real GPUs, one each, as NVIDIA's driver names them."""
    disks: tuple[Disk, ...] = ()
    """Those of ``/``, of ``/var`` and of the login user's home folder, in this order."""
    taken: tuple[str, ...] = ()
    """Interfaces that use the cluster's networks already, with how."""
    port_taken: bool = False
    """A new node's UDP port for WireGuard is some other program's."""
    exports: tuple[str, ...] = ()
    """Folders that it exports by NFS."""
    nfs3: tuple[str, ...] = ()
    """Where it has mounts by NFS 3, which needs rpcbind and statd."""
    slurm: tuple[str, ...] = ()
    """Slurm's daemons that run."""
    databases: tuple[str, ...] = ()
    """What the database server that runs on it has, besides its own and Slurm's; looked for on the head of a Slurm."""
    ray: bool = False
    """Another Ray runs on it; looked for where Ray is the software."""
    locked: str = ""
    """Who holds a lock of the package manager."""


def parse(lines: Sequence[str], now: float, networks: Sequence[IPv4Network] = (PRIVATE_NETWORK,)) -> Facts | None:
    """The facts in these lines, or None where the login gave no shell that ran the script.

    ``now`` is this computer's time (epoch seconds) when the machine told its own; ``networks`` are the cluster's.
    """
    told: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        word, _, rest = line.partition(" ")
        told[word].append(rest.strip())
    if not told["time"]:
        return None
    one = {word: rests[0] for word, rests in told.items() if rests}
    return Facts(
        offset=float(one["time"]) - now,
        synchronised="synchronised" in one,
        sudo=one.get("sudo", ""),
        apt="apt" in one,
        lacks=tuple(told["lacks"]),
        joined="joined" in one,
        cluster=one.get("cluster", "").partition(" ")[0],
        node=one.get("cluster", "").partition(" ")[2],
        leased="leased" in one,
        release=one.get("release", ""),
        system=one.get("system", "unknown"),
        architecture=one.get("architecture", ""),
        memory=int(one.get("memory", "0")) * 1024,
        cpus=_count(one.get("cpus", "")),
        machine_id=one.get("machine-id", ""),
        uid=one.get("uid", ""),
        host_keys=tuple(told["host"]),
        container="container" in one,
        wireguard=one.get("wireguard", ""),
        gpus=tuple(told["gpu"]),
        disks=tuple(_disk(rest) for rest in told["disk"]),
        taken=tuple(filter(None, (_taken(route, networks) for route in told["route"]))),
        port_taken="port" in one,
        exports=tuple(told["exports"]),
        nfs3=tuple(told["nfs3"]),
        slurm=tuple(told["runs"]),
        databases=tuple(told["database"]),
        ray="ray" in one,
        locked=one.get("locked", ""),
    )


def _count(ranges: str) -> int:
    """How many numbers ``0-3,6`` has."""
    ends = [part.partition("-")[::2] for part in ranges.split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, last in ends)


def _disk(words: str) -> Disk:
    device, kind, free, path = words.split(maxsplit=3)
    return Disk(device=device, type=kind, free=int(free) * 1024, path=path)


def _taken(route: str, networks: Sequence[IPv4Network]) -> str | None:
    """The interface and the part of the cluster's networks that this line of ``ip route`` sends elsewhere, if any."""
    words = route.split()
    kind = words.pop(0) if words[0] in _ROUTE_TYPES else "unicast"
    options = dict(pairwise(words))
    device = options.get("dev", kind)
    if device == INTERFACE or (device.startswith(PODS) and len(networks) > 1):
        return None
    try:
        target = IPv4Network("0.0.0.0/0" if words[0] in ("default", "nexthop") else words[0])
        gateway = IPv4Address(options.get("via", "0.0.0.0"))  # noqa: S104 - an address to compare with
    except (AddressValueError, NetmaskValueError, ValueError):
        return None
    if any(target.subnet_of(network) for network in networks):
        return f"{device} has {words[0]}"
    return f"{device} has the gateway {gateway}" if any(gateway in network for network in networks) else None
