"""What nodes tell each other when they join: public keys, and what their networks are like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition, not_joined
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
    mtu: int = USUAL_MTU
    """The widest packet through the tunnel in bytes, by its network cards and by what an earlier join found."""
    ssh_port: int = 22
    """Where its sshd took this login."""


def parse(lines: list[str]) -> Met:
    """What a node told, from the lines of ``network/meet.sh.j2``.

    Raises :class:`KeyError` where it did not tell its key.
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
        mtu=min((int(words[0]) for words in told["mtu"]), default=USUAL_MTU),
        ssh_port=int(one.get("ssh", 22)),
    )


def refusals(plan: NetworkPlan, met: Mapping[int, Met]) -> list[Condition]:
    """The nodes that made the same WireGuard key, since they share the state of their random numbers (F2, X4)."""
    first: dict[str, str] = {}
    return [
        not_joined(
            node.name,
            "EqualKeys",
            f"{other} and {node.name} have the same WireGuard key: clones of one image",
            f"remove /etc/wireguard/{plan.interface}.key on one of them, and join again",
        )
        for node in plan.nodes
        if (other := first.setdefault(met[node.index].wireguard, node.name)) != node.name
    ]
