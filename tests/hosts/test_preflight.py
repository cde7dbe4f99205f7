"""The preflight on real virtual machines: what is refused, what is put right, and what is waited for."""

from __future__ import annotations

import shlex
import time

import pytest

from runcrate_iac.model.progress import Event
from tests.hosts.conftest import Cluster, join, reasons

pytestmark = pytest.mark.hosts

NODES = (0, 1)


def test_a_wrong_clock_and_an_equal_machine_id_are_corrected(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone with the head's machine-id and a clock 10 minutes ahead gets its own, and the head's time (F2, F6)."""
    own = cluster.node(0).file("/etc/machine-id").content_string.strip()
    cluster.node(1).check_output(f"date -s '+600 seconds' && echo {own} > /etc/machine-id")
    assert join(cluster, monkeypatch).ok
    clocks = [float(cluster.node(index).check_output("date +%s")) for index in NODES]
    assert abs(clocks[1] - clocks[0]) < 30
    new = cluster.node(1).file("/etc/machine-id").content_string.strip()
    assert (len(new), new == own) == (32, False)
    assert cluster.node(0).file("/etc/machine-id").content_string.strip() == own
    assert cluster.node(1).file(f"/var/log/journal/{new}").is_directory


def test_machines_that_cannot_be_one_cluster_are_told_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sudo that asks and a network that is taken are both named in one look, and nothing is changed (C15)."""
    head, rules = cluster.node(0), "/etc/sudoers.d/runcrate"
    head.check_output("ip route add 10.77.0.128/25 dev lo")
    cluster.node(1).check_output(f"mv {rules} /etc/sudoers.kept")
    begun = time.monotonic()
    outcome = join(cluster, monkeypatch)
    seconds = time.monotonic() - begun
    head.check_output(f"ip route del 10.77.0.128/25 dev lo && ssh node-1 mv /etc/sudoers.kept {rules}")
    assert reasons(outcome) == {("node-0", "NetworkTaken"), ("node-1", "NoSudo")}
    said = {condition.node: condition.message for condition in outcome.conditions}
    assert "10.77.0.128/25" in said["node-0"]
    assert "password" in said["node-1"]
    assert not outcome.changed
    assert seconds < 60


def test_a_locked_package_manager_is_waited_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The join waits for who installs packages, tells so, and breaks no lock (F8)."""
    hold = (
        "use Fcntl; open my $file, '>>', '/var/lib/dpkg/lock-frontend' or die;"
        "my $lock = pack('s s l! l! i', F_WRLCK, 0, 0, 0, 0); fcntl($file, F_SETLK, $lock) or die;"
        "rename '/usr/bin/wg', '/usr/bin/wg.kept'; sleep 20; rename '/usr/bin/wg.kept', '/usr/bin/wg'"
    )
    run = "systemd-run --quiet --unit=installing --expand-environment=no perl -e"
    cluster.node(1).check_output(f"{run} {shlex.quote(hold)}")
    told: list[Event] = []
    assert join(cluster, monkeypatch, told=told.append).ok
    assert any("locked by process" in event.message and event.node == "node-1" for event in told)
    assert not cluster.node(1).service("installing").is_running


def test_a_firewall_of_the_sites_own_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of the user's that lets only ping and SSH through the tunnel is found by a real connection (F25)."""
    node = cluster.node(1)
    node.check_output(
        "nft add table inet faulty && nft add chain inet faulty input '{ type filter hook input priority 10; }' && "
        "nft add rule inet faulty input iifname wg-runcrate tcp dport != 22 ct state new reject"
    )
    outcome = join(cluster, monkeypatch)
    node.check_output("nft delete table inet faulty")
    assert reasons(outcome) == {("node-1", "FirewallCloses")}
    assert "inet faulty" in outcome.conditions[0].message
