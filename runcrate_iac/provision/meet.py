"""What nodes tell each other when they join: public keys, clocks, and what their networks are like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.network import NetworkPlan

USUAL_MTU = 1420
"""WireGuard's usual: an Ethernet's 1500 bytes less 80 of headers (wg-quick(8))."""


class Account(Model):
    """An account that reaches the account of the same name on the other nodes."""

    name: str
    home: str
    public_key: str


class Met(Model):
    """What one node told. Public things only."""

    wireguard: str
    """Its WireGuard public key."""
    host_keys: tuple[str, ...]
    """``type base64`` of its SSH host keys."""
    accounts: tuple[Account, ...]
    offset: float
    """Seconds that its clock is ahead of this computer's, to about a second."""
    synchronised: bool = False
    """A time service keeps its clock, from a source."""
    mtu: int = USUAL_MTU
    """The widest packet through the tunnel in bytes, by its network cards and by what an earlier join found."""
    taken: tuple[str, ...] = ()
    """Interfaces of its own that have an address in the cluster's private network."""
    ssh_port: int = 22
    """Where its sshd took this login."""


def parse(lines: list[str], now: float) -> Met:
    """What a node told, from the lines of ``network/meet.sh.j2``; ``now`` is this computer's time then (epoch seconds).

    Raises :class:`KeyError` where it did not tell its clock or its key.
    """
    told: dict[str, list[list[str]]] = defaultdict(list)
    for line in lines:
        kind, *words = line.split()
        told[kind].append(words)
    one = {kind: values[0][0] for kind, values in told.items() if values[0]}
    return Met(
        wireguard=one["wireguard"],
        host_keys=tuple(" ".join(words[:2]) for words in told["host"]),
        accounts=tuple(Account(name=name, home=home, public_key=" ".join(key)) for name, home, *key in told["user"]),
        offset=float(one["time"]) - now,
        synchronised="synchronised" in told,
        mtu=min((int(words[0]) for words in told["mtu"]), default=USUAL_MTU),
        taken=tuple(words[0] for words in told["taken"]),
        ssh_port=int(one.get("ssh", 22)),
    )


def refusals(plan: NetworkPlan, met: Mapping[int, Met]) -> list[Condition]:
    """Why these nodes can't be one cluster: clones with equal keys (F2, X4), or an address range that is in use."""
    found = []
    for what, keys_of, remedy in (
        ("WireGuard key", lambda one: [one.wireguard], f"remove /etc/wireguard/{plan.interface}.key on one of them"),
        ("SSH host key", lambda one: one.host_keys, "make new host keys on one of them: `ssh-keygen -A` after rm"),
    ):
        first: dict[str, str] = {}
        for node in plan.nodes:
            for key in keys_of(met[node.index]):
                if first.setdefault(key, node.name) != node.name:
                    message = f"{first[key]} and {node.name} have the same {what}: clones of one image"
                    found.append(_refusal("EqualKeys", message, f"{remedy}, and join again", node.name))
                    break
    for node in plan.nodes:
        for interface in met[node.index].taken:
            message = f"{interface} has an address in {plan.network}, which is the cluster's private network"
            found.append(_refusal("NetworkTaken", message, "use machines whose networks leave it free", node.name))
    return found


def _refusal(reason: str, message: str, remedy: str, node: str) -> Condition:
    return Condition(type="Joined", status=Status.FALSE, reason=reason, message=message, remedy=remedy, node=node)
