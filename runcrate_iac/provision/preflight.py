"""Why these machines can't be one cluster, told before anything on them is changed: pure verdicts over all nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from runcrate_iac.model.conditions import Condition, Status, not_joined
from runcrate_iac.model.network import WIREGUARD_PORT, NetworkPlan, Node
from runcrate_iac.model.packages import PACKAGES
from runcrate_iac.model.spec import GIB, ClusterSpec, MachineSpec, Software
from runcrate_iac.provision.facts import Facts

ROOM = 3 * GIB // 2
"""Free bytes that a new node needs: Slurm with its database, an MPI and compilers are 0.9 GiB on Debian 13 (the sum of
their ``Installed-Size``), the downloaded packages a third of that, and some room is left."""
MEMORY_MARGIN = 0.05
"""How much (of the whole) the memory of equal machines may differ: firmware and kernels keep different parts of it."""

_NO_GPU = "install NVIDIA's driver; say `gpus_simulated` of a machine that has no GPU"

All = Mapping[int, Facts]


class _Trait(NamedTuple):
    """What equal machines have in common."""

    reason: str
    told: Callable[[Facts], str]
    same: Callable[[Facts, Facts], bool]
    remedy: str = "use machines of one kind: the nodes of a cluster are equal (C1)"


def _exactly(reason: str, told: Callable[[Facts], str]) -> _Trait:
    return _Trait(reason, told, lambda one, other: told(one) == told(other))


_TRAITS = (
    # By its release: the point in 24.04.1 says only when the image was made.
    _Trait("OtherSystem", lambda facts: facts.system, lambda one, other: one.release == other.release),
    _exactly("OtherArchitecture", lambda facts: f"{facts.architecture} processors"),
    _exactly("OtherCpus", lambda facts: f"{facts.cpus} CPUs"),
    _Trait(
        "OtherMemory",
        lambda facts: f"{facts.memory / GIB:.1f} GiB of memory",
        lambda one, other: abs(one.memory - other.memory) <= MEMORY_MARGIN * max(one.memory, other.memory),
    ),
    # Files in /shared and Slurm's jobs are a number's, whatever its name. A cluster that is up already stays.
    _Trait(
        "OtherUid",
        lambda facts: f"number {facts.uid} for its login user",
        lambda one, other: one.uid == other.uid or (one.joined and other.joined),
        "give the login user the same number on all (`usermod -u`, and `chown` of its files), or log in as root",
    ),
    _exactly("OtherGpus", lambda facts: " and ".join(sorted(set(facts.gpus))) or "no GPU"),
)


def refusals(plan: NetworkPlan, spec: ClusterSpec, facts: All, trusted: frozenset[int]) -> list[Condition]:
    """Everything that keeps a machine out, each with node, fact and remedy; empty where all can join.

    ``trusted``: the nodes, by index, that the others have to be like.
    """
    return [
        *(condition for node in plan.nodes for condition in _alone(node, facts[node.index], spec.machine)),
        *_containers(plan, spec.software, facts),
        *(condition for node in plan.nodes for condition in _in_use(node, facts[node.index], spec.software)),
        *_differences(plan, facts, trusted),
        *_equal_host_keys(plan, facts),
        *_shared_homes(plan, facts),
    ]


def _containers(plan: NetworkPlan, software: Software, facts: All) -> list[Condition]:
    """The machines that can't run this software, whatever the spec calls them: containers no Kubernetes (C17)."""
    if software is not Software.KUBERNETES:
        return []
    names = [node.name for node in plan.nodes if facts[node.index].container]
    why = "is a container, and a kubelet needs a kernel of its own (C17)"
    remedy = "use virtual machines or bare metal for `software: kubernetes`, or other software"
    return [not_joined(name, "IsContainer", f"{name} {why}", remedy) for name in names]


def _in_use(node: Node, facts: Facts, software: Software) -> Iterator[Condition]:
    """What the machine does for others already, and could do no more as a node."""
    if facts.joined:
        return
    if facts.port_taken:
        fact = f"UDP port {WIREGUARD_PORT} of {node.name}, which the cluster's WireGuard needs, is in use"
        yield not_joined(
            node.name,
            "PortTaken",
            fact,
            "give another port to what uses it (`wg show all listen-port` as root, `ss -ulpn`), or use another machine",
        )
    if facts.exports and node.index == 0:
        fact = f"{node.name} exports {', '.join(facts.exports)} by NFS, and a head's NFS serves the cluster alone"
        yield not_joined(
            node.name,
            "NfsInUse",
            fact,
            "use another machine as node 0, or remove that from /etc/exports and /etc/exports.d",
        )
    if facts.nfs3:
        fact = f"{node.name} has mounts by NFS 3, whose helpers a node stops: {', '.join(facts.nfs3)}"
        yield not_joined(node.name, "NfsInUse", fact, "mount them by NFS 4 (`vers=4.2`), or unmount them")
    if facts.slurm and software is Software.SLURM:
        fact = f"{node.name} is in another Slurm cluster, for which it runs {' and '.join(facts.slurm)}"
        yield not_joined(node.name, "SlurmInUse", fact, "stop it and disable it, or use another machine")
    if facts.databases:
        names = ", ".join(facts.databases)
        fact = f"{node.name} serves the databases {names}, and the MariaDB of a Slurm's head has no port for others"
        yield not_joined(node.name, "DatabaseInUse", fact, "use another machine as node 0, or move them to one")
    if facts.ray:
        fact = f"{node.name} runs another Ray, whose session in /tmp/ray ours would replace"
        yield not_joined(node.name, "RayInUse", fact, "end it (`ray stop`), or use another machine")


def no_shell(node: Node, lines: list[str]) -> Condition:
    """The refusal of a machine that takes the login and runs no script: a forced command, or no real shell."""
    said = next((line for line in reversed(lines) if line.strip()), "nothing")
    return not_joined(
        node.name,
        "NoShell",
        f"the login of user {node.machine.user} runs no commands; it says: {said:.200}",
        "set `user` to an account with a shell; images often want `debian`, `ubuntu` or `admin` instead of root",
    )


def slower(plan: NetworkPlan, facts: All) -> Condition | None:
    """The news that machines do without the kernel's WireGuard; not a fault."""
    names = [node.name for node in plan.nodes if facts[node.index].wireguard == "tun"]
    if not names:
        return None
    message = f"no WireGuard in the kernel of {', '.join(names)}: wireguard-go does it, with less throughput"
    return Condition(type="WireGuard", status=Status.TRUE, reason="UserSpace", message=message)


def unfit_ids(plan: NetworkPlan, facts: All, trusted: frozenset[int]) -> frozenset[int]:
    """The nodes that need a new machine-id: it is none (machine-id(5)), or a node before has it (F2)."""
    seen: set[str] = set()
    unfit = set()
    for node in sorted(plan.nodes, key=lambda node: node.index not in trusted):
        machine_id = facts[node.index].machine_id
        if machine_id in seen or not re.fullmatch("[0-9a-f]{32}", machine_id):
            unfit.add(node.index)
        seen.add(machine_id)
    return frozenset(unfit)


def _alone(node: Node, facts: Facts, machine: MachineSpec) -> Iterator[Condition]:
    """What is wrong with a machine, whatever the others are."""
    user, gpus = node.machine.user, len(facts.gpus)
    if facts.sudo:
        allow = f"`{user} ALL=(ALL) NOPASSWD: ALL` in /etc/sudoers.d/{user}"
        yield not_joined(
            node.name, "NoSudo", f"user {user} can't become root: {facts.sudo}", f"allow it: {allow}; or log in as root"
        )
    if not facts.apt or facts.release not in PACKAGES:
        why = f"{facts.system} is not supported" if facts.apt else f"{facts.system} has no apt-get and dpkg"
        yield not_joined(
            node.name, "SystemUnsupported", why, f"use an image of Debian or Ubuntu: {', '.join(PACKAGES)}"
        )
    if not facts.wireguard:
        fact = "its kernel has no WireGuard, and there is no /dev/net/tun for the user-space one"
        yield not_joined(
            node.name, "NoWireGuard", fact, "use a kernel that has it, or let the container have /dev/net/tun"
        )
    if not node.machine.gpus_simulated and gpus != machine.gpus:
        remedy = "look for Xid errors in the kernel's log; replace the machine" if gpus else _NO_GPU
        fact = f"{gpus} of {machine.gpus} GPUs on {node.name}"
        yield not_joined(
            node.name, "WrongGpuCount", fact, f"{remedy}, or declare the GPUs that there are in `machine.gpus`"
        )
    for interface in facts.taken:
        fact = f"{interface}, which is in the cluster's networks"
        leave = "10.77.0.0/24 (Kubernetes: 10.77.0.0/24 and 10.78.0.0/15)"
        yield not_joined(
            node.name, "NetworkTaken", fact, f"remove it, or use machines whose networks leave {leave} free"
        )
    small = {disk.device: disk for disk in facts.disks[:2] if disk.free < ROOM and not facts.joined}
    for disk in small.values():
        fact = f"{disk.free / GIB:.1f} GiB free on {disk.path}, {ROOM / GIB:.1f} GiB are needed"
        yield not_joined(node.name, "DiskFull", fact, "make room there, or use a machine with a larger disk")


def _differences(plan: NetworkPlan, facts: All, trusted: frozenset[int]) -> Iterator[Condition]:
    """How machines differ that must be equal (C1): the fewer are named; where it is even, the first are right."""
    indexes = range(len(plan.nodes))
    for trait in _TRAITS:
        alike = [[other for other in indexes if trait.same(facts[one], facts[other])] for one in indexes]
        usual = max(alike, key=lambda these: len(trusted.intersection(these)))
        where = f"{len(usual)} of {len(alike)} nodes have" if len(usual) > 1 else f"{plan.nodes[usual[0]].name} has"
        for index in sorted(set(indexes) - set(usual)):
            node = plan.nodes[index]
            fact = f"{node.name} has {trait.told(facts[index])} where {where} {trait.told(facts[usual[0]])}"
            yield not_joined(node.name, trait.reason, fact, trait.remedy)


def _equal_host_keys(plan: NetworkPlan, facts: All) -> Iterator[Condition]:
    """Clones of one image (F2, X4), or one machine with two addresses."""
    first: dict[str, str] = {}
    for node in plan.nodes:
        others = {first.setdefault(key, node.name) for key in facts[node.index].host_keys} - {node.name}
        if others:
            fact = (
                f"{min(others)} and {node.name} have the same SSH host key: clones of one image, or one machine twice"
            )
            remedy = f"make new ones on {node.name}: `rm /etc/ssh/ssh_host_*; ssh-keygen -A`, and restart its sshd"
            yield not_joined(node.name, "EqualKeys", fact, remedy)


def _shared_homes(plan: NetworkPlan, facts: All) -> Iterator[Condition]:
    """A home folder that nodes share: each would write its own keys over the others'."""
    first: dict[str, str] = {}
    for node in plan.nodes:
        for disk in facts[node.index].disks[2:]:
            if disk.is_remote and (other := first.setdefault(disk.device, node.name)) != node.name:
                fact = f"{other} and {node.name} share the home folder of user {node.machine.user} ({disk.device})"
                yield not_joined(
                    node.name, "HomeShared", fact, "log in as root, or as a user whose home is on each machine's disk"
                )
