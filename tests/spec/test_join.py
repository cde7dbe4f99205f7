"""The join's decisions, pure: what nodes tell, whose clock is wrong, who reaches whom, what configuration follows."""

from __future__ import annotations

import pytest

from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.provision import clock, meet, reach
from runcrate_iac.provision.meet import Met
from runcrate_iac.render import render

MEET = """\
wireguard PUB0=
user runcrate /home/runcrate ssh-ed25519 AAAA runcrate@node-0
user root /root ssh-ed25519 BBBB root@node-0
host ssh-ed25519 CCCC comment
mtu 1420
mtu 1380
ssh 22
"""
PROBE = """\
time 1000.0
mtu 1420
self 10.77.0.1
full node-1
fits node-2 1200
none node-3
none node-4 0
none node-5 1795980577
ssh root
"""


def network(nodes: int) -> NetworkPlan:
    """So many machines on one Ethernet."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}", user="runcrate") for i in range(nodes)])


def told(wireguard: str) -> Met:
    """What a node with this key told."""
    return Met(wireguard=wireguard, host_keys=(), accounts=())


def test_what_a_node_tells_is_understood() -> None:
    """Keys, accounts and the narrowest packet size come from the node's lines (X4)."""
    met = meet.parse(MEET.splitlines())
    assert (met.wireguard, met.mtu, met.ssh_port) == ("PUB0=", 1380, 22)
    assert [(a.name, a.home, a.public_key) for a in met.accounts] == [
        ("runcrate", "/home/runcrate", "ssh-ed25519 AAAA runcrate@node-0"),
        ("root", "/root", "ssh-ed25519 BBBB root@node-0"),
    ]
    assert met.host_keys == ("ssh-ed25519 CCCC",)


def test_equal_keys_are_refused_by_name() -> None:
    """Clones that made the same WireGuard key are refused, and both are named (F2, X4)."""
    met = {0: told("a"), 1: told("b"), 2: told("a")}
    (refusal,) = meet.refusals(network(3), met)
    assert (refusal.reason, refusal.node) == ("EqualKeys", "node-2")
    assert "node-0 and node-2" in refusal.message
    assert meet.refusals(network(2), met) == []


def test_a_clock_that_is_set_back_again_is_named() -> None:
    """Two time services that disagree are named, not fought (F6)."""
    nodes = network(2).nodes
    assert clock.disagreement(nodes[1], 20.0) == []
    (fault,) = clock.disagreement(nodes[1], -600.0)
    assert (fault.node, fault.reason) == ("node-1", "ClockDisagrees")
    assert "-600 s" in fault.message


def test_a_probe_tells_full_fitting_and_silent_nodes() -> None:
    """Nodes that answer full packets, smaller ones only, or none, with or without a handshake, are told apart (F26)."""
    probe = reach.parse(PROBE.splitlines())
    assert (probe.full, probe.fits) == (frozenset({"node-1"}), {"node-2": 1200})
    assert probe.silent == {"node-3": False, "node-4": False, "node-5": True}
    assert (probe.address, probe.ssh) == ("10.77.0.1", True)


def test_a_refused_login_is_not_hammered() -> None:
    """After a refused login the next round waits longer than sshd's penalty for one lasts (G1)."""
    lines = ["time 1", "mtu 1420", "full node-1"]
    refused, silent = reach.parse([*lines, "ssh refused"]), reach.parse(lines)
    assert (refused.ssh, refused.refused) == (False, True)
    assert (reach.pause(refused), reach.pause(silent)) == (15, 2)
    nodes = network(2)
    assert "SSH login" in reach.missing(nodes, nodes.nodes[0], refused)


def test_a_pair_that_fails_is_named() -> None:
    """Each silent pair is a fault with both names, the address and the port to open (C8, F26)."""
    nodes = network(6)
    faults = reach.faults(nodes, nodes.nodes[0], reach.parse(PROBE.splitlines()))
    assert [fault.reason for fault in faults] == ["NoHandshake", "NoHandshake", "NoAnswer"]
    assert faults[0].message == "node-0 -> node-3: no WireGuard handshake with 192.0.2.4:51820"
    assert "51820" in faults[0].remedy


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("time 1\nmtu 1420\nself 127.0.1.1\nfull node-1\nssh root", "NameTaken"),
        ("time 1\nmtu 1420\nself 10.77.0.1\nfull node-1", "NoSshByName"),
        ("time 1\nmtu 1420\nself 10.77.0.1\nfits node-1 84\nssh root", "LargePacketsLost"),
    ],
)
def test_what_else_keeps_a_node_out(lines: str, reason: str) -> None:
    """A name that means loopback, a refused SSH login and a path that carries nothing are faults (C2, F26, G11)."""
    nodes = network(2)
    (fault,) = reach.faults(nodes, nodes.nodes[0], reach.parse(lines.splitlines()))
    assert (fault.reason, fault.node) == (reason, "node-0")


def test_a_firewall_of_the_sites_own_is_named() -> None:
    """A node that lets ping and SSH in from the tunnel and no other connection is at fault, not the one that tried."""
    nodes = network(3)
    login = ["time 1", "mtu 1420", "ssh root"]
    good = [*login, "tcp open"]
    closed = [*login, "tcp closed", "table inet runcrate", "table ip filter"]
    probes = {0: reach.parse(good), 1: reach.parse(closed), 2: reach.parse(good)}
    assert [reach.firewalled(nodes, nodes.nodes[index], probes) for index in (0, 1)] == [[], []]
    (fault,) = reach.firewalled(nodes, nodes.nodes[2], probes)
    assert (fault.node, fault.reason) == ("node-2", "FirewallCloses")
    assert fault.message.endswith(
        "no TCP connection of node-1 on wg-runcrate: it has a firewall of its own (ip filter)"
    )
    assert "wg-runcrate" in fault.remedy


def test_a_node_that_nobody_tried_is_no_node_that_answered() -> None:
    """A probe that tells nothing of some nodes is a fault that names them, and no check counts them (C8, X3)."""
    nodes = network(6)
    head, alone = nodes.nodes[0], reach.parse(["time 1", "mtu 1420", "self 10.77.0.1", "pinger no perl: not found"])
    assert reach.missing(nodes, head, alone) == "node-1, node-2, node-3 and 2 more not pinged yet (no perl: not found)"
    (fault,) = reach.faults(nodes, head, alone)
    assert (fault.reason, fault.node) == ("NotProbed", "node-0")
    assert fault.message == "node-0 could not ping node-1, node-2, node-3 and 2 more: no perl: not found"
    found = {one.type: one for one in reach.network(nodes, head, {0: alone}, {0: 0.0})}
    assert (found["ReachesAll"].reason, found["ReachesAll"].measured) == ("NotProbed", "0 of 5")


def test_packets_that_are_lost_again_are_a_fault() -> None:
    """Once all have gone down to what passes, a smaller size still means that nothing was proved there (F26)."""
    (node, _) = network(2).nodes
    assert reach.still_narrow(node, reach.parse(["time 1", "mtu 1200", "full node-1"])) == []
    (fault,) = reach.still_narrow(node, reach.parse(["time 1", "mtu 1200", "fits node-1 1000"]))
    assert fault.reason == "LargePacketsLost"
    assert fault.message.startswith("node-0 -> node-1: packets of 1200 bytes are lost")


def test_the_narrowest_path_sets_the_packet_size() -> None:
    """All nodes use the widest packet that passes between all (F26)."""
    wide = reach.parse(["time 1", "mtu 8920", "full node-1"])
    narrow = reach.parse(["time 1", "mtu 8920", "fits node-0 1420"])
    assert reach.fitting_mtu({0: wide, 1: wide}) == 8920
    assert reach.fitting_mtu({0: wide, 1: narrow}) == 1420


def test_a_node_waits_for_what_it_lacks() -> None:
    """While pairs are silent, the node says which (C8)."""
    nodes = network(2)
    silent = reach.parse(["time 1", "mtu 1420", "none node-1"])
    assert reach.missing(nodes, nodes.nodes[0], silent) == "no handshake with node-1 yet"
    assert (
        reach.missing(nodes, nodes.nodes[0], reach.parse(["time 1", "mtu 1420", "full node-1", "ssh root", "tcp open"]))
        == ""
    )


def test_the_wireguard_configuration_has_every_other_node_and_no_private_key() -> None:
    """Each peer has its key, its one address and its endpoint; the private key is no part of it (C15, X4)."""
    nodes = network(3)
    keys = {"node-0": "K0", "node-1": "K1", "node-2": "K2"}
    assert (
        render("network/wireguard.conf.j2", plan=nodes, node=nodes.nodes[1], public_keys=keys, routed={})
        == """\
ListenPort = 51820

[Peer] # node-0
PublicKey = K0
AllowedIPs = 10.77.0.1/32
Endpoint = 192.0.2.1:51820
PersistentKeepalive = 25

# node-1 is this node; where nodes meet, it begins with those below.

[Peer] # node-2
PublicKey = K2
AllowedIPs = 10.77.0.3/32
Endpoint = 192.0.2.3:51820
PersistentKeepalive = 25
"""
    )


def test_the_firewall_leaves_the_users_tables_alone() -> None:
    """It replaces its own table only, and opens SSH and WireGuard besides answers, ICMP and DHCP (F25)."""
    text = render("network/firewall.nft.j2", plan=network(2), ssh_ports=[22, 2222], routed={})
    assert "flush ruleset" not in text
    assert {line for line in text.splitlines() if "table" in line and not line.startswith("#")} == {
        "table inet runcrate",
        "delete table inet runcrate",
        "table inet runcrate {",
    }
    assert "policy drop" in text
    assert "tcp dport { 22, 2222 } accept" in text
    assert "udp dport 51820 accept" in text
