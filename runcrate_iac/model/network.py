"""Names, addresses and the head: a pure function of the spec's size and the machines' addresses (C2, C15)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated

from pydantic import Field

from runcrate_iac.model.base import Model

PRIVATE_NETWORK = IPv4Network("10.77.0.0/24")
WIREGUARD_PORT = 51820
INTERFACE = "wg-runcrate"


class MachineState(StrEnum):
    """What a provider says of a machine."""

    BOOTING = "booting"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    GONE = "gone"


class Machine(Model):
    """One machine as its provider describes it: how to reach it, and what it is."""

    index: Annotated[int, Field(ge=0, le=63)]
    """The node's number; node 0 is the head."""
    id: str
    """The provider's own id."""
    host: str
    """Where SSH answers, as seen from this computer."""
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    user: str = "root"
    """The login user: root, or one with sudo and no password."""
    host_key: str | None = None
    """``type base64`` of the SSH host key, where the provider knows it; else it is pinned at first contact."""
    identity_file: str | None = None
    """The private key on this computer that logs in; None means what the user's ssh would offer."""
    endpoint: str | None = None
    """The address at which the other machines reach it; None means ``host``."""
    gpus_simulated: bool = False
    """Its GPUs are simulated: schedulable device nodes with no hardware behind them."""
    state: MachineState = MachineState.RUNNING
    log: str | None = None
    """Path of its console log on this computer, where there is one."""


class Node(Model):
    """One node of the plan."""

    index: int
    name: str
    """``node-0``, ``node-1``, …"""
    address: str
    """Its address in 10.77.0.0/24."""
    endpoint: str
    """``address:port`` at which the other nodes reach its WireGuard."""
    machine: Machine


class NetworkPlan(Model):
    """The cluster's private network."""

    nodes: tuple[Node, ...]
    interface: str = INTERFACE
    network: str = str(PRIVATE_NETWORK)
    port: int = WIREGUARD_PORT

    @property
    def head(self) -> Node:
        """Node 0 (C2)."""
        return self.nodes[0]


def node_name(index: int) -> str:
    """``node-0``, ``node-1``, … (C2)."""
    return f"node-{index}"


def private_address(index: int) -> IPv4Address:
    """10.77.0.1 for node 0, 10.77.0.2 for node 1, … (C15)."""
    return PRIVATE_NETWORK[index + 1]


def _endpoint(address: str) -> str:
    return f"[{address}]:{WIREGUARD_PORT}" if ":" in address else f"{address}:{WIREGUARD_PORT}"


def plan(machines: Sequence[Machine]) -> NetworkPlan:
    """The plan for these machines, by their index.

    Raises :class:`ValueError` where indexes are missing or double, or two machines share an address.
    """
    ordered = sorted(machines, key=lambda machine: machine.index)
    if [machine.index for machine in ordered] != list(range(len(ordered))):
        msg = f"machines must be numbered 0…{len(ordered) - 1}, each once: {[m.index for m in ordered]}"
        raise ValueError(msg)
    nodes = tuple(
        Node(
            index=machine.index,
            name=node_name(machine.index),
            address=str(private_address(machine.index)),
            endpoint=_endpoint(machine.endpoint or machine.host),
            machine=machine,
        )
        for machine in ordered
    )
    for what, values in (
        ("SSH address", [f"{n.machine.host}:{n.machine.port}" for n in nodes]),
        ("endpoint", [n.endpoint for n in nodes]),
    ):
        for node, value in zip(nodes, values, strict=True):
            if values.index(value) != node.index:
                msg = f"node-{values.index(value)} and {node.name} have the same {what} {value}"
                raise ValueError(msg)
    return NetworkPlan(nodes=nodes)
