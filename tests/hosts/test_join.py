"""The join on real virtual machines: names, private network, firewall, SSH, and what it does about faults."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest
from testinfra.host import Host

from runcrate_iac.model.conditions import Condition
from tests.hosts.conftest import Cluster, join, reasons

pytestmark = pytest.mark.hosts

NODES = (0, 1)
BOOT_SECONDS = 300.0
FAULTY = "nft add table inet faulty && nft add chain inet faulty input '{ type filter hook prerouting priority -300; }'"


@pytest.fixture(params=NODES)
def here(cluster: Cluster, request: pytest.FixtureRequest) -> Host:
    """Each node in turn."""
    return cluster.node(request.param)


@pytest.fixture
def faulty(cluster: Cluster) -> Iterator[Host]:
    """node-1, with a table of the user's in which tests lose packets; everything is mended afterwards."""
    node = cluster.node(1)
    node.check_output(FAULTY)
    yield node
    node.check_output("nft delete table inet faulty")
    for index in NODES:
        script = "sed -i s/^mtu=.*/mtu=1420/ /usr/local/lib/runcrate/mesh && /usr/local/lib/runcrate/mesh up"
        cluster.node(index).check_output(script)


@pytest.mark.parametrize("index", NODES)
def test_each_node_has_its_name(cluster: Cluster, index: int) -> None:
    """Hostname, static and now, is the node's name, and on it too its name means its private address (C2, G11)."""
    node, plan = cluster.node(index), cluster.plan.nodes[index]
    assert node.check_output("hostname") == plan.name
    assert node.file("/etc/hostname").content_string == f"{plan.name}\n"
    for other in cluster.plan.nodes:
        assert node.check_output(f"getent ahostsv4 {other.name}").split()[0] == other.address


def test_other_lines_of_the_hosts_file_stay(here: Host) -> None:
    """Our block stands beside the user's lines, localhost among them (G11)."""
    text = here.file("/etc/hosts").content_string
    assert text.count("# runcrate-iac begin") == 1
    assert "127.0.0.1 localhost" in text
    assert here.file("/etc/hosts").mode == 0o644


def test_keys_are_made_on_their_node(cluster: Cluster) -> None:
    """Private keys differ, are their owner's only, and none is on this computer (X4)."""
    public = set()
    for index in NODES:
        node = cluster.node(index)
        key = node.file("/etc/wireguard/wg-runcrate.key")
        assert (key.user, key.mode) == ("root", 0o600)
        assert node.file("/etc/wireguard").mode == 0o700
        assert node.file("/root/.ssh/id_runcrate").mode == 0o600
        public.add(node.check_output("wg show wg-runcrate public-key"))
        private = key.content_string.strip()
        kept = [path for path in cluster.ssh_config.parent.rglob("*") if path.is_file()]
        assert not [path for path in kept if private in path.read_text(errors="replace")]
        assert private not in node.check_output("ps -eo args; cat /etc/wireguard/wg-runcrate.conf")
    assert len(public) == len(NODES)


def test_every_pair_has_shaken_hands(cluster: Cluster) -> None:
    """WireGuard runs between every two nodes, one route for all, on one interface (C15)."""
    for index in NODES:
        node = cluster.node(index)
        node.check_output(f"ping -n -q -c 1 -w 15 -M do -s 1392 node-{1 - index}")
        handshakes = node.check_output("wg show wg-runcrate latest-handshakes").split()[1::2]
        assert len(handshakes) == len(NODES) - 1
        assert all(int(stamp) > 0 for stamp in handshakes)
        assert node.check_output("ip -o route show dev wg-runcrate").startswith("10.77.0.0/24")


def test_equal_keys_are_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clones with the same WireGuard key are refused, both by name, and keep what they had (F2, X4)."""
    key = "/etc/wireguard/wg-runcrate.key"
    double = cluster.node(0).check_output("wg genkey")
    for index in NODES:
        cluster.node(index).check_output(f"cp -p {key} {key}.old && echo {double} > {key}")
    try:
        outcome = join(cluster, monkeypatch)
    finally:
        for index in NODES:
            cluster.node(index).check_output(f"mv {key}.old {key}")
    assert reasons(outcome) == {("node-1", "EqualKeys")}
    assert "node-0 and node-1" in outcome.conditions[0].message
    assert join(cluster, monkeypatch).ok


def test_no_sshd_took_us_for_an_attacker(here: Host) -> None:
    """Not one address was penalised for how we poll and log in (G1)."""
    assert here.run("journalctl --no-pager -u ssh -u 'ssh@*' | grep -i penalty").stdout == ""


@pytest.mark.parametrize("account", ["login user", "root"])
@pytest.mark.parametrize("index", NODES)
def test_ssh_by_name_asks_nothing(cluster: Cluster, index: int, account: str) -> None:
    """The login user and root reach the other node, and their own, by name, with no question (C2, C23)."""
    node = cluster.node(index, sudo=account == "root")
    for other in cluster.plan.nodes:
        assert node.check_output(f"ssh -o BatchMode=yes {other.name} hostname") == other.name


def test_only_ssh_answers_on_the_outer_network(cluster: Cluster) -> None:
    """A listener of the user's is reached over the private network and not over the physical one (F25, C15)."""
    server = "python3 -m http.server 8099 --bind 0.0.0.0 --directory /var/empty"
    head, other = cluster.node(0), cluster.node(1)
    outer = cluster.plan.head.endpoint.rpartition(":")[0]
    head.check_output(f"mkdir -p /var/empty && systemd-run --quiet --unit=listener {server}")
    try:
        reach = "timeout 5 bash -c '</dev/tcp/{}/{}'"
        deadline = time.monotonic() + 60
        while other.run(reach.format("node-0", 8099)).rc:
            assert time.monotonic() < deadline, "the listener never came up"
            time.sleep(1)
        assert other.run(reach.format(outer, 8099)).rc != 0
        assert other.run(reach.format(outer, 22)).rc == 0
    finally:
        head.check_output("systemctl stop listener")


def test_the_lease_is_over(here: Host) -> None:
    """No timer waits to power the machine off, now or after a reboot (X2)."""
    assert not here.service("runcrate-lease.timer").is_running
    assert not here.file("/etc/runcrate/lease").exists


def test_files_are_readable_whatever_the_umask(here: Host) -> None:
    """Modes are set, not inherited (G15)."""
    for path, mode in {
        "/usr/local/lib/runcrate/mesh": 0o755,
        "/etc/ssh/ssh_known_hosts": 0o644,
        "/etc/ssh/ssh_config.d/runcrate.conf": 0o644,
        "/etc/wireguard/wg-runcrate.conf": 0o600,
        "/root/.ssh/authorized_keys": 0o600,
    }.items():
        assert here.file(path).mode == mode, path


def test_a_second_join_changes_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining joined nodes succeeds, and no node was changed (C4)."""
    assert join(cluster, monkeypatch).ok
    outcome = join(cluster, monkeypatch)
    assert (outcome.ok, outcome.changed, reasons(outcome)) == (True, False, set())


def test_what_a_user_broke_is_mended(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flushed firewall, a lost interface and a 127.0.1.1 line are mended by a join, umask 077 or not (G11, G15)."""
    node = cluster.node(1)
    node.check_output("nft delete table inet runcrate && ip link delete wg-runcrate")
    node.check_output("echo '127.0.1.1 node-1.example.org node-1 mine' >> /etc/hosts && chmod 600 /etc/hosts")
    node.check_output("echo umask 077 > /root/.profile")
    outcome = join(cluster, monkeypatch)
    assert (outcome.ok, outcome.changed) == (True, True)
    assert node.check_output("getent ahostsv4 node-1").split()[0] == "10.77.0.2"
    assert node.file("/etc/hosts").contains("^127.0.1.1 node-1.example.org mine$")
    assert node.file("/etc/hosts").mode == 0o644
    node.check_output("nft list table inet runcrate")


def test_a_pair_without_udp_is_named(cluster: Cluster, faulty: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where UDP is lost between two nodes both directions of the pair are named, with the port to open (F26, C8)."""
    faulty.check_output("nft add rule inet faulty input udp dport 51820 drop")
    for index in NODES:
        cluster.node(index).check_output("ip link delete wg-runcrate")
    outcome = join(cluster, monkeypatch)
    assert not outcome.ok
    assert reasons(outcome) == {("node-0", "NoHandshake"), ("node-1", "NoHandshake")}
    assert any("node-1 -> node-0" in condition.message for condition in outcome.conditions)
    assert all(_remedy_names_the_port(condition) for condition in outcome.conditions)


def _remedy_names_the_port(condition: Condition) -> bool:
    return "51820" in condition.remedy


def test_a_narrow_path_lowers_the_packet_size(cluster: Cluster, faulty: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where packets over 1280 bytes are lost on the way, all nodes send smaller ones, and go on doing so (F26)."""
    faulty.check_output("nft add rule inet faulty input udp dport 51820 meta length gt 1280 drop")
    assert join(cluster, monkeypatch).ok
    for index in NODES:
        node = cluster.node(index)
        assert node.file("/sys/class/net/wg-runcrate/mtu").content_string.strip() == "1200"
        node.check_output(f"ping -n -q -c 1 -w 15 -M do -s 1172 node-{1 - index}")
    again = join(cluster, monkeypatch)
    assert (again.ok, again.changed) == (True, False)


def test_the_private_network_is_back_after_a_reboot(cluster: Cluster) -> None:
    """Both nodes reboot, and mesh, firewall and names are back by themselves (F20, G30)."""
    boots = {index: cluster.node(index).check_output("cat /proc/sys/kernel/random/boot_id") for index in NODES}
    for index in NODES:
        cluster.node(index).run("echo '127.0.1.1 node-%s' >> /etc/hosts; systemctl reboot", str(index))
    deadline = time.monotonic() + BOOT_SECONDS
    for index in NODES:
        script = (
            f"test $(cat /proc/sys/kernel/random/boot_id) != {boots[index]} && systemctl is-active runcrate-mesh && "
            f"sudo ping -n -q -c 1 -w 15 -M do -s 1392 node-{1 - index} && sudo nft list table inet runcrate && "
            f"getent ahostsv4 node-{index}"
        )
        while True:
            command = ["ssh", "-F", str(cluster.ssh_config), "-o", "ConnectTimeout=10", f"node-{index}", script]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            if done.returncode == 0:
                break
            assert time.monotonic() < deadline, done.stdout + done.stderr
            time.sleep(3)
        assert f"10.77.0.{index + 1}" in done.stdout.splitlines()[-1]
