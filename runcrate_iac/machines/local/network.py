"""The two networks of a node: a forwarded SSH port on 127.0.0.1, and a LAN that only the cluster's machines share."""

from __future__ import annotations

import hashlib
import socket
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

LAN = IPv4Network("192.168.177.0/24")
LOOPBACK = "127.0.0.1"


def lan_address(index: int) -> IPv4Interface:
    """The node's LAN address: 192.168.177.10/24 for node 0, then .11, and so on."""
    return IPv4Interface(f"{LAN[10 + index]}/{LAN.prefixlen}")


def lan_mac(index: int) -> str:
    """The LAN card's address; every cluster has its own LAN, so other clusters may have the same."""
    return f"52:54:00:72:64:{index:02x}"


def lan_group(cluster_id: str) -> str:
    """``group:port`` of the multicast socket that is the cluster's LAN.

    The group is in 239.192.0.0/14, for use within an organisation (RFC 2365); it never leaves the loopback
    interface. Group and port are taken from the id, 31 bits in all.
    """
    digest = int.from_bytes(hashlib.sha256(cluster_id.encode()).digest()[:8], "big")
    group = IPv4Address(int(IPv4Address("239.192.0.0")) + digest % 2**18)
    return f"{group}:{20000 + (digest >> 18) % 2**13}"


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on now; who binds it next must be ready to lose the race."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
