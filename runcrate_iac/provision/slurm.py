"""What Slurm is told of the nodes, what it says of them, and what that means: pure (C6, F7, F22, G33)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from runcrate_iac.model import slurm as rules
from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.network import NetworkPlan, Node
from runcrate_iac.model.slurm import Hardware, gpus_present
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.render import render

AT_WORK = frozenset({"idle", "mixed", "allocated", "completing", "planned", "reserved", "maint"})
"""States (sinfo(1), ``%T``) of a node that takes jobs, runs them, or is kept for some by the scheduler or the admin."""
_AT_WORK_TOO = "-+$"
"""Marks after a state that leave it as good as it is: planned, completing, reserved; ``*`` is a node that is silent."""


_OWN_NAME = "-+/usr/local/lib/runcrate/names"
"""As root. Some clouds' DHCP hooks set the hostname whenever they like, and no daemon starts by another name."""
_MAKE_GPU_DEVICES = "-/usr/bin/timeout 60 /usr/bin/nvidia-smi -L"
"""The driver makes /dev/nvidia* at its first use after a boot, and slurmd ends where they are missing."""
_SAME_EVERYWHERE = ("/etc/slurm/slurm.conf", "/etc/slurm/gres.conf", "/etc/slurm/cgroup.conf")


class Service(Model):
    """A service of a node."""

    after: tuple[str, ...] = ()
    """The units that it starts after, and wants."""
    directory: str = ""
    """Its folder in /run."""
    files: tuple[str, ...] = ()
    """What makes it start over when it changes."""
    first: tuple[str, ...] = ()
    """The commands that run before it, each with a prefix that lets it fail (systemd.service(5))."""


def services(*, head: bool, gpus_simulated: bool) -> dict[str, Service]:
    """The services of a node, by their units."""
    mesh, munge = "runcrate-mesh.service", "munge.service"
    storage_or_controller = "slurmctld.service" if head else "shared.automount"
    every = {
        munge: Service(files=("/etc/munge/munge.key",)),
        "slurmd.service": Service(
            after=(mesh, munge, storage_or_controller),
            directory="slurm",
            files=_SAME_EVERYWHERE,
            first=(_OWN_NAME,) if gpus_simulated else (_OWN_NAME, _MAKE_GPU_DEVICES),
        ),
    }
    if not head:
        return every
    return {
        **every,
        "slurmdbd.service": Service(
            after=(mesh, munge, "mariadb.service"),
            directory="slurmdbd",
            files=("/etc/slurm/slurmdbd.conf",),
            first=(_OWN_NAME,),
        ),
        "slurmctld.service": Service(
            after=(mesh, munge, "slurmdbd.service"),
            directory="slurmctld",
            files=_SAME_EVERYWHERE,
            first=(_OWN_NAME,),
        ),
    }


def configuration(spec: ClusterSpec, plan: NetworkPlan, hardware: Mapping[int, Hardware]) -> dict[str, str]:
    """The files that are the same on all nodes, by path; ``hardware`` by the nodes' indexes."""
    gpus, gres = spec.machine.gpus, rules.gres(spec.machine)
    values = {
        "spec": spec,
        "plan": plan,
        "cgroups": rules.has_cgroups(hardware),
        "cgroup_v2": all(one.cgroup_v2 for one in hardware.values()),
        "container": any(one.container for one in hardware.values()),
        "memory_per_cpu": rules.memory_per_cpu(hardware),
        "partition": rules.PARTITION,
        "nodes": [
            f"NodeName={node.name} NodeAddr={node.address} {hardware[node.index].topology}"
            f" RealMemory={hardware[node.index].for_jobs} Gres={gres} State=UNKNOWN"
            for node in plan.nodes
        ],
        "gpus": [
            f"NodeName={node.name} Name=gpu Type={gres.split(':')[1]} File={rules.gpu_files(node, gpus)}"
            for node in plan.nodes
        ],
    }
    return {path: render(f"slurm/{path.rpartition('/')[2]}.j2", **values) for path in _SAME_EVERYWHERE}


def missing_gpus(node: Node, hardware: Hardware, declared: int) -> Condition | None:
    """The fault of a node that has fewer GPU devices than declared; slurmd would not start there."""
    present = gpus_present(node, hardware, declared)
    if present == declared:
        return None
    return Condition(
        type="GpusPresent",
        status=Status.FALSE,
        reason="WrongGpuCount",
        message=f"{present} of {declared} GPUs on {node.name}",
        remedy="look for Xid errors in the kernel's log; replace the machine",
        node=node.name,
    )


def idle(nodes: Iterable[Node], lines: Sequence[str], gpus: str) -> list[Condition]:
    """One condition per node, from ``sinfo -h -N -o '%N %T %G %E'``; ``gpus`` is the count, as ``gpu:h100:8``."""
    told = {words[0]: words[1:] for line in lines if len(words := line.split(maxsplit=3)) >= 3}  # noqa: PLR2004
    conditions = []
    for node in nodes:
        state, gres, *reason = told.get(node.name, ["unknown", gpus])
        works = state.rstrip(_AT_WORK_TOO) in AT_WORK
        good = works and gres.partition("(")[0] == gpus
        why = f" ({reason[0]})" if reason and reason[0] != "none" else ""
        silent = bool(lines) and node.name not in told
        said = f"; {lines[-1]}" if silent else ""
        log = "slurmctld.log on node-0" if silent else f"slurmd.log on {node.name}"
        wrong = f" with {gres} instead of {gpus}" if works and not good else ""
        conditions.append(
            Condition(
                type="SlurmIdle",
                status=Status.TRUE if good else Status.FALSE,
                reason="Idle" if good else "NotIdle",
                message=f"Slurm's state of {node.name} is {state}{why}{wrong}{said}",
                remedy="" if good else f"look at /var/log/slurm/{log}",
                node=node.name,
            )
        )
    return conditions


def credentials(node: Node, lines: Sequence[str]) -> Condition:
    """Whether this node takes the credentials of those it talks with, from the ``munge`` lines of the check."""
    told = dict(line.removeprefix("munge ").partition(" ")[::2] for line in lines if line.startswith("munge "))
    bad = [
        f"{node.name} refuses the credential of {peer}: {said}" for peer, said in told.items() if "Success" not in said
    ]
    return Condition(
        type="MungeAgrees",
        status=Status.FALSE if bad or not told else Status.TRUE,
        reason="CredentialRefused" if bad or not told else "SameKey",
        message=next(iter(bad), f"decodes what {', '.join(told) or 'no node'} encoded"),
        remedy="`retry` (or `pulumi up`) mends it: the software step gives every node the head's key" if bad else "",
        node=node.name,
    )


def accounting(head: Node, lines: Sequence[str]) -> Condition:
    """Whether sacct answers."""
    said = [line.removeprefix("sacct ") for line in lines if line.startswith("sacct ")]
    good = said == ["answered"]
    return Condition(
        type="AccountingAnswers",
        status=Status.TRUE if good else Status.FALSE,
        reason="Answered" if good else "NoAnswer",
        message="sacct answers" if good else f"sacct: {next(iter(said), 'no answer')}",
        remedy="" if good else "look at /var/log/slurm/slurmdbd.log and mariadb.service there",
        node=head.name,
    )


def mpi(plan: NetworkPlan, lines: Sequence[str]) -> Condition:
    """Whether one MPI program ran on all nodes: by its size, since N programs of size 1 end well too (G33)."""
    size = len(plan.nodes)
    ranks = {tuple(line.split()[1:]) for line in lines if line.startswith("mpi ")}
    said = [line.removeprefix("srun ") for line in lines if line.startswith("srun ")]
    whole = ranks == {(str(node.index), str(size), str(size), node.name) for node in plan.nodes}
    skipped = not ranks and any(line.startswith("skipped: ") for line in said)
    if whole:
        reason, message = "WholeSize", f"srun starts MPI with {size} ranks on {size} nodes"
    elif skipped:
        reason, message = "NodesAtWork", "no MPI program was started, since jobs are running or nodes are reserved"
    else:
        sizes = " or ".join(sorted({rank[1] for rank in ranks if len(rank) > 1}))
        seen = f"{len(ranks)} ranks of a world of {sizes}" if ranks else next(iter(said), "nothing was printed")
        reason, message = "WrongSize", f"srun over {size} nodes: {seen}"
    good = whole or skipped
    return Condition(
        type="MpiRuns",
        status=Status.TRUE if good else Status.FALSE,
        reason=reason,
        message=message,
        remedy="" if good else "look at `srun --mpi=list` and /var/log/slurm/slurmd.log on every node",
    )
