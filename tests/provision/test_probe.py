"""The probe of a node in a real shell, with real packets over the loopback of a network namespace of the test's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.provision import reach
from runcrate_iac.render import render

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a network namespace")

LOOPBACK = "mount -t sysfs sysfs /sys; ip link set lo mtu 1420 up; ip address add 192.0.2.1/32 dev lo\n"
"""An interface with the packet size of a tunnel, and an address besides, without which names are not resolved."""
NO_PROTOCOLS = "[ ! -e /etc/protocols ] || mount --bind /dev/null /etc/protocols\n"
"""An image without the package netbase."""
NO_RAW_SOCKETS = "exec setpriv --bounding-set=-net_raw --inh-caps=-net_raw sh /dev/fd/3\n"
"""A container that may not make any."""


def network() -> NetworkPlan:
    """Two nodes that are addresses of the loopback, and whose names are those."""
    both = plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}") for i in range(2)])
    nodes = [node.model_copy(update={"name": f"127.0.0.{node.index + 1}"}) for node in both.nodes]
    nodes = [node.model_copy(update={"address": node.name}) for node in nodes]
    return both.model_copy(update={"nodes": tuple(nodes), "interface": "lo"})


def probed(folder: Path, machine: str = "", listens_at: str = "127.0.0.2") -> reach.Probe:
    """What the first node finds; every login leads to this computer, ``machine`` makes it another one first."""
    nodes = network()
    node, peer = nodes.nodes
    following = peer.model_copy(update={"address": listens_at})
    text = render("network/probe.sh.j2", plan=nodes, node=node, peers=[peer], next=following, seconds=1)
    (folder / "probe").write_text("set -eu\n" + text.replace("/usr/local/lib/runcrate/mesh", ":"))
    login = folder / "ssh"
    login.write_text('#!/bin/sh\nshift 3\nexec sh -c "$*"\n')
    login.chmod(0o755)
    text = f"{LOOPBACK}{machine}\nexec sh /dev/fd/3\n".replace("/dev/fd/3", f"{folder}/probe")
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    words = ["unshare", "--net", "--mount", "sh", "-s"]
    done = subprocess.run(words, input=text, env=environment, capture_output=True, text=True, check=True)
    return reach.parse(done.stdout.splitlines())


@pytest.mark.parametrize("machine", ["", NO_PROTOCOLS])
def test_a_node_that_reaches_all_says_so(tmp_path: Path, machine: str) -> None:
    """A full packet, a login and a TCP connection are told as proved, without /etc/protocols too (C8)."""
    probe = probed(tmp_path, machine)
    assert (list(probe.full), probe.ssh, probe.tcp) == (["127.0.0.2"], True, "open")
    nodes = network()
    assert reach.missing(nodes, nodes.nodes[0], probe) == ""
    assert reach.faults(nodes, nodes.nodes[0], probe) == []
    assert reach.firewalled(nodes, nodes.nodes[1], {0: probe}) == []


def test_a_node_that_cannot_ping_has_proved_nothing(tmp_path: Path) -> None:
    """Without raw sockets there are no results, which is a fault with the pinger's own words (C8, F26)."""
    probe, nodes = probed(tmp_path, NO_RAW_SOCKETS), network()
    (fault,) = reach.faults(nodes, nodes.nodes[0], probe)
    assert (fault.reason, fault.node) == ("NotProbed", "127.0.0.1")
    assert fault.message == "127.0.0.1 could not ping 127.0.0.2: raw ICMP socket: Operation not permitted"
    assert "CAP_NET_RAW" in fault.remedy
    assert "127.0.0.2 not pinged yet" in reach.missing(nodes, nodes.nodes[0], probe)


def test_a_port_that_nobody_could_try_is_not_an_open_one(tmp_path: Path) -> None:
    """Where the next node has no port to connect to, that no firewall closes it is not proved (C8)."""
    probe, nodes = probed(tmp_path, listens_at="192.0.2.9"), network()
    assert (probe.ssh, probe.tcp) == (True, "")
    (fault,) = reach.firewalled(nodes, nodes.nodes[1], {0: probe})
    assert (fault.reason, fault.node) == ("NoListener", "127.0.0.2")
    assert fault.message.endswith("on lo: bind: Cannot assign requested address")
    assert "no TCP connection to 127.0.0.2 yet" in reach.missing(nodes, nodes.nodes[0], probe)
