"""What the acceptance suite finds on a node, and what it means: pure (X3, F22)."""

from __future__ import annotations

from collections.abc import Sequence

from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.network import NetworkPlan, Node
from runcrate_iac.provision.reach import following


def verdicts(
    plan: NetworkPlan,
    node: Node,
    gpus: int,
    hostfile: tuple[str, Sequence[str]],
    lines: Sequence[str],
    *,
    present: NetworkPlan,
    shared: bool,
) -> list[Condition]:
    """One condition per thing that was looked at, from the lines of ``checks/node.sh.j2``.

    ``present`` has the nodes that could be looked at, ``gpus`` are those declared, ``hostfile`` is its path and the
    lines that it must have; ``shared`` says whether the nodes share a folder (C21).
    """
    told = [line.partition(" ")[::2] for line in lines]

    def all_of(word: str) -> list[str]:
        return [rest.strip() for first, rest in told if first == word]

    conditions: list[Condition] = []

    def verdict(kind: str, reason: str, problems: Sequence[str], good: str, remedy: str, *, measured: str = "") -> None:
        """The first problem is the fact; there is none where all is well."""
        if problems:
            status, message = Status.FALSE, f"{problems[0]} on {node.name}"
        else:
            status, reason, message, remedy = Status.TRUE, "AsDeclared", good, ""
        conditions.append(
            Condition(
                type=kind,
                status=status,
                reason=reason,
                message=message,
                measured=measured,
                remedy=remedy,
                node=node.name,
            )
        )

    drifted = [name for name in all_of("hostname") if name != node.name]
    addresses = dict(entry.partition(" ")[::2] for entry in all_of("name"))
    verdict(
        "NamesResolve",
        "WrongAddress",
        [
            *(f"the hostname is {name} instead of {node.name}" for name in drifted),
            *(
                f"{peer.name} means {addresses.get(peer.name) or 'nothing'} instead of {peer.address}"
                for peer in plan.nodes
                if addresses.get(peer.name) != peer.address
            ),
        ],
        f"{len(plan.nodes)} names mean their private addresses",
        "`retry` (or `pulumi up`) sets it; if it changes again, look for a DHCP hook that sets it"
        if drifted
        else "look at /etc/hosts and at `hosts:` in /etc/nsswitch.conf, then `retry` (or `pulumi up`)",
    )
    present_gpus = int(next(iter(all_of("gpus")), "0"))
    simulated = " simulated" if node.machine.gpus_simulated else ""
    verdict(
        "GpusPresent",
        "WrongGpuCount",
        [f"{present_gpus} of {gpus}{simulated} GPUs"] if present_gpus != gpus else [],
        f"{gpus}{simulated} GPUs",
        "`retry` (or `pulumi up`) makes them"
        if simulated
        else "look for Xid errors in the kernel's log; replace the machine",
        measured=f"{present_gpus}{simulated}",
    )
    head, hangs = plan.head, bool(all_of("hangs"))
    if shared and head not in present.nodes:
        fact = [f"{head.name} holds /shared and can't be reached: there is no /shared"]
        verdict("SharedMounted", "HeadMissing", fact, "", f"bring {head.name} back")
        return conditions
    if hangs:
        fact = ["/shared does not answer"]
        verdict("SharedMounted", "NoAnswer", fact, "", f"look at nfs-server.service on {head.name}")
        return conditions
    path, lines_wanted = hostfile
    after = following(present, node)
    verdict(
        "HostfileRight",
        "WrongHostfile",
        [
            *([f"{path} is not what the cluster is"] if all_of("hostfile") != list(lines_wanted) else []),
            *(f"no login to {after.name} of the hostfile ({error})" for error in all_of("unreturned")),
            *([f"{after.name} reads another {path}"] if _differs(all_of("back"), lines_wanted) else []),
        ],
        "the hostfile names every node, on the next one too",
        "`retry` (or `pulumi up`) writes it",
    )
    if not shared:
        return conditions
    wanted = "1777" if node == head else f"{head.address}:/shared"
    there = next(iter(all_of("shared")), "")
    verdict(
        "SharedMounted",
        "NotMounted",
        [f"/shared is {there or 'not mounted'} instead of {wanted}"] if there != wanted else [],
        "/shared is there",
        f"look at `systemctl status shared.mount` there and nfs-server.service on {head.name}",
    )
    missing = [name.name for name in present.nodes if name.name not in all_of("read")]
    verdict(
        "SharedWorks",
        "NotShared",
        [
            *(f"/shared can't be written ({error})" for error in all_of("unwritten")),
            *(f"what {name} wrote to /shared can't be read" for name in missing),
        ],
        "reads what every node writes to /shared",
        f"look at `dmesg` there and nfs-server.service on {head.name}",
    )
    return conditions


def _differs(told: Sequence[str], wanted: Sequence[str]) -> bool:
    return bool(told) and list(told) != list(wanted)
