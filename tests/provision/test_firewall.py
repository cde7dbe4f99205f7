"""The firewall of a node with pods, in the kernel: a router between network namespaces of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import IPv4Interface

import pytest

from runcrate_iac.machines.local.container import tree
from runcrate_iac.model import kubernetes
from runcrate_iac.model.network import Machine, plan
from runcrate_iac.model.spec import Software
from runcrate_iac.paths import cache_dir
from runcrate_iac.render import render

IMAGE = cache_dir() / "images" / tree.key() / "root"
HAS_NFT = shutil.which("nft") is not None or IMAGE.is_dir()
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not HAS_NFT, reason="needs root, and nft or our container image")

NODE = {
    "eth0": IPv4Interface("192.0.2.1/24"),
    "docker0": IPv4Interface("172.17.0.1/16"),
    "vethpod": IPv4Interface("10.78.0.1/24"),
    "wg-runcrate": IPv4Interface("10.77.0.1/24"),
}
"""The node's interfaces; at the other end of each is one machine, by the name of the interface, at the next address."""
MACHINES = {name: address.ip + 1 for name, address in NODE.items()}
PORTS = """
table ip kube-proxy {
  chain services {
    type nat hook prerouting priority dstnat;
    ip daddr 10.79.0.1 dnat to 10.77.0.2
    iifname "wg-runcrate" ip daddr 10.77.0.1 dnat to 172.17.0.2
  }
  chain masquerading {
    type nat hook postrouting priority srcnat;
    ct original ip daddr 10.79.0.1 masquerade
  }
}
"""
"""The service whose endpoint is the other node, as kube-proxy writes it, and a port of the owner's container."""
REFUSES = """
import errno, socket, sys
probe = socket.socket()
probe.settimeout(1)
print(probe.connect_ex((sys.argv[1], 9)) == errno.ECONNREFUSED)
"""
"""Whether a machine answers: that nothing listens at its port 9."""


def run(*words: str, text: str = "") -> None:
    """Run a command."""
    subprocess.run(words, input=text, text=True, check=True, capture_output=True)


def namespace(machine: str) -> str:
    """The name of its network namespace."""
    return f"rc-{os.getpid()}-{machine}"


@pytest.fixture(scope="module")
def node() -> Iterator[None]:
    """Head of a cluster with Kubernetes, its firewall loaded; it forwards packets."""
    inside = ("ip", "netns", "exec", namespace("node"))
    nft = ("nft",) if shutil.which("nft") else ("chroot", str(IMAGE), "nft")
    nodes = plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}") for i in range(2)])
    routed = kubernetes.routed(Software.KUBERNETES, nodes.nodes)
    networks = {"pod_network": kubernetes.POD_NETWORK, "service_network": kubernetes.SERVICE_NETWORK}
    try:
        run("ip", "netns", "add", namespace("node"))
        run(*inside, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        for name, address in NODE.items():
            there = namespace(name)
            run("ip", "netns", "add", there)
            run(
                "ip",
                "-n",
                namespace("node"),
                "link",
                "add",
                name,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                there,
            )
            run("ip", "-n", namespace("node"), "address", "add", str(address), "dev", name)
            run("ip", "-n", namespace("node"), "link", "set", name, "up")
            run("ip", "-n", there, "address", "add", f"{MACHINES[name]}/{address.network.prefixlen}", "dev", "eth0")
            run("ip", "-n", there, "link", "set", "eth0", "up")
            run("ip", "-n", there, "route", "add", "default", "via", str(address.ip))
        text = render("network/firewall.nft.j2", plan=nodes, ssh_ports=[22], routed=routed, **networks)
        run(*inside, *nft, "-f", "-", text=text + PORTS)
        yield
    finally:
        for machine in ("node", *NODE):
            subprocess.run(["ip", "netns", "delete", namespace(machine)], check=False, capture_output=True)


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize(
    ("source", "target", "passes"),
    [
        ("docker0", "eth0", True),
        ("eth0", "docker0", True),
        ("docker0", "wg-runcrate", True),
        ("vethpod", "eth0", True),
        ("vethpod", "wg-runcrate", True),
        ("vethpod", "10.79.0.1", True),
        ("wg-runcrate", "vethpod", True),
        ("wg-runcrate", "10.77.0.1", True),
        ("eth0", "vethpod", False),
        ("docker0", "vethpod", False),
        ("eth0", "10.79.0.1", False),
        ("wg-runcrate", "eth0", False),
        ("wg-runcrate", "docker0", False),
    ],
)
def test_the_firewall_protects_pods_and_the_tunnel_and_nothing_else(source: str, target: str, passes: bool) -> None:
    """What the owner's own Docker forwards passes; pods and services are reached from the cluster alone (C15, X4)."""
    inside = ["ip", "netns", "exec", namespace(source)]
    words = [*inside, sys.executable, "-c", REFUSES, str(MACHINES.get(target, target))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{passes}\n", "")
