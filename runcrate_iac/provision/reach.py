"""Who reaches whom: what the probe of one node says, and what it means (C2, C8, F26)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition, Status, not_joined
from runcrate_iac.model.network import NetworkPlan, Node
from runcrate_iac.provision.clock import disagreement

SMALLEST = 576
"""Bytes of the smallest packet that every IPv4 path carries (RFC 791); a path below it is broken."""


class Probe(Model):
    """What one node reached."""

    time: float
    """Its clock, epoch seconds."""
    mtu: int
    """Bytes of the packets that it tried."""
    address: str
    """What its own name means on it (G11)."""
    full: frozenset[str]
    """Nodes that answered a full packet."""
    fits: dict[str, int]
    """Nodes that answered smaller packets only, with the bytes of the largest."""
    silent: dict[str, bool]
    """Nodes that never answered; whether there was a WireGuard handshake with them at all."""
    ssh: bool
    """Whether root logged in to the next node by its name."""
    refused: bool
    """Whether that node's sshd turned root away."""
    tcp: str
    """``open`` where that node took a TCP connection at another port, over the tunnel; ``closed`` where it took none;
    empty where none was tried."""
    listener: str
    """Why that node had no such port."""
    tables: tuple[str, ...]
    """Where it took none: the nftables tables it has besides ours."""
    pinger: str
    """The last that the pinger said besides its results: why it ended without some."""


def parse(lines: Sequence[str]) -> Probe:
    """What a node reached, from the lines of ``network/probe.sh.j2``."""
    told = [words for line in lines if (words := line.split())]
    one = {words[0]: words[1] for words in told if len(words) > 1}
    return Probe(
        time=float(one["time"]),
        mtu=int(one["mtu"]),
        address=one.get("self", "nothing"),
        full=frozenset(words[1] for words in told if words[0] == "full"),
        fits={words[1]: int(words[2]) for words in told if words[0] == "fits"},
        silent={words[1]: len(words) > 2 and words[2] != "0" for words in told if words[0] == "none"},  # noqa: PLR2004
        ssh=one.get("ssh") == "root",
        refused=one.get("ssh") == "refused",
        tcp=one.get("tcp", ""),
        listener=" ".join(next((words[1:] for words in told if words[0] == "listener"), [])),
        tables=tuple(" ".join(words[1:]) for words in told if words[0] == "table" and words[-1] != "runcrate"),
        pinger=" ".join(next((words[1:] for words in reversed(told) if words[0] == "pinger"), [])),
    )


def untried(plan: NetworkPlan, node: Node, probe: Probe) -> list[str]:
    """The nodes of which the probe says nothing at all: that it tells of no fault there proves nothing."""
    told = {*probe.full, *probe.fits, *probe.silent, node.name}
    return [peer.name for peer in plan.nodes if peer.name not in told]


def fitting_mtu(probes: Mapping[int, Probe]) -> int:
    """Bytes of the widest packet that passes between all nodes that answer each other at all."""
    return min(min([probe.mtu, *probe.fits.values()]) for probe in probes.values())


def pause(probe: Probe) -> float:
    """Seconds until the next round: long after a refused login, since sshd 9.8 and later bans those who repeat it.

    A failed login costs 5 s of penalty, which bans from 15 s on (sshd_config(5), ``PerSourcePenalties``).
    """
    return 15.0 if probe.refused else 2.0


def missing(plan: NetworkPlan, node: Node, probe: Probe) -> str:
    """What the node still waits for, in words; empty when all answer."""
    waits = [f"{'no answer from' if shook else 'no handshake with'} {name} yet" for name, shook in probe.silent.items()]
    if names := untried(plan, node, probe):
        waits.append(f"{_several(names)} not pinged yet ({probe.pinger or 'no word of the pinger'})")
    after = following(plan, node).name
    if after in probe.full and not probe.ssh:
        waits.append(f"no SSH login to {after} yet")
    elif after in probe.full and not probe.tcp:
        waits.append(f"no TCP connection to {after} yet")
    return ", ".join(waits)


def _several(names: Sequence[str]) -> str:
    """Some names, however many: of 63 nodes the first three, and how many more."""
    more = len(names) - 3
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:3])} and {more} more"


def following(plan: NetworkPlan, node: Node) -> Node:
    """The node that this one logs in to, so that every node is tried once from each side."""
    return plan.nodes[(plan.nodes.index(node) + 1) % len(plan.nodes)]


_ASPECTS = {"LargePacketsLost": "LargePacketsPass", "ClockDisagrees": "ClockAgrees", "NameTaken": "NamesResolve"}
"""The condition that a fault with this reason is about, for a check; all others are about ``ReachesAll``."""


def network(
    plan: NetworkPlan, node: Node, probes: Mapping[int, Probe], offsets: Mapping[int, float]
) -> list[Condition]:
    """What a check says of a node's network and clock (X3): a fault each, or that all is well, with the figures.

    ``plan`` has the nodes that can be looked at, ``offsets`` their clocks in seconds against this computer's; the first
    of them, the head if it is there, is right.
    """
    probe = probes[node.index]
    others = len(plan.nodes) - 1
    away = offsets[node.index] - offsets[min(offsets)]
    wrong = [*faults(plan, node, probe), *firewalled(plan, node, probes), *disagreement(node, away)]
    told = [fault.model_copy(update={"type": _ASPECTS.get(fault.reason, "ReachesAll")}) for fault in wrong]
    good = {
        **({"ReachesAll": f"{len({*probe.full, *probe.fits})} of {others}"} if others else {}),
        "LargePacketsPass": f"{min([probe.mtu, *probe.fits.values()])} bytes",
        "ClockAgrees": f"{round(away, 1) + 0.0:+.1f} s",
    }
    told = [fault.model_copy(update={"measured": good.get(fault.type, "")}) for fault in told]
    broken_already = {fault.type for fault in told}
    return told + [
        Condition(type=kind, status=Status.TRUE, reason="Measured", message=measured, measured=measured, node=node.name)
        for kind, measured in good.items()
        if kind not in broken_already
    ]


def firewalled(plan: NetworkPlan, node: Node, probes: Mapping[int, Probe]) -> list[Condition]:
    """The fault of a node that lets ping and SSH in from the tunnel and nothing else, as the node before it found.

    A node on which there was no port to try is at fault too, since that nothing else is kept out must be seen.
    """
    before = plan.nodes[plan.nodes.index(node) - 1]
    probe = probes.get(before.index)
    if probe is None or not probe.ssh or probe.tcp == "open":
        return []
    if not probe.tcp:
        fact = f"{before.name} could not try a TCP connection to {node.name} on {plan.interface}"
        why = f": {probe.listener}" if probe.listener else ""
        return [not_joined(node.name, "NoListener", fact + why, f"look at perl and `ip address` on {node.name}")]
    own = f"a firewall of its own ({', '.join(probe.tables)})" if probe.tables else "a firewall of its own"
    fact = f"{node.name} accepts no TCP connection of {before.name} on {plan.interface}: it has {own}"
    remedy = f"let it accept everything that comes in on {plan.interface} (firewalld: put that into zone `trusted`)"
    return [not_joined(node.name, "FirewallCloses", fact, remedy)]


def still_narrow(node: Node, probe: Probe) -> list[Condition]:
    """The faults of a node that has gone down to packets that passed to all, and that do not pass now.

    Without them nothing would be known of the logins and ports of the nodes that answer small packets only.
    """
    why = "bytes are lost, though they passed a moment ago"
    remedy = "repair the path between them: it loses packets, or changes how large they may be"
    return [
        not_joined(node.name, "LargePacketsLost", f"{node.name} -> {name}: packets of {probe.mtu} {why}", remedy)
        for name, size in probe.fits.items()
        if size >= SMALLEST
    ]


def faults(plan: NetworkPlan, node: Node, probe: Probe) -> list[Condition]:
    """Why this node isn't part of the cluster; empty when it is."""
    found = []

    def fault(reason: str, message: str, remedy: str) -> None:
        found.append(not_joined(node.name, reason, message, remedy))

    for name, shook in probe.silent.items():
        if shook:
            fault("NoAnswer", f"{node.name} -> {name}: handshake, but no answer to ping", "look at its firewall tables")
        else:
            endpoint = next(peer.endpoint for peer in plan.nodes if peer.name == name)
            message = f"{node.name} -> {name}: no WireGuard handshake with {endpoint}"
            fault("NoHandshake", message, f"let UDP port {plan.port} through between the machines, both ways")
    if names := untried(plan, node, probe):
        message = f"{node.name} could not ping {_several(names)}: {probe.pinger or 'its pinger ended without a word'}"
        fault("NotProbed", message, "let root there use perl and raw sockets; a container needs CAP_NET_RAW")
    for name, size in probe.fits.items():
        if size < SMALLEST:
            message = f"{node.name} -> {name}: packets of {SMALLEST} bytes are lost"
            fault("LargePacketsLost", message, "repair the path between them: it must carry 576 bytes and more")
    if probe.address != node.address:
        message = f"its own name means {probe.address} on it, not {node.address}"
        fault("NameTaken", message, "look at /etc/hosts and at `hosts:` in /etc/nsswitch.conf")
    after = following(plan, node).name
    if after in probe.full and not probe.ssh:
        message = f"root can't log in to {after} over SSH by its name"
        fault("NoSshByName", message, f"on {after}, look at AllowUsers and PermitRootLogin of its sshd")
    return found
