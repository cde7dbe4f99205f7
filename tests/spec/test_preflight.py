"""The preflight's verdicts, pure: which machines can't be one cluster, and why, before anything is changed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from runcrate_iac.model.documents import Made, StepInput
from runcrate_iac.model.kubernetes import networks
from runcrate_iac.model.money import Money
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import GIB, ClusterSpec, MachineSpec, Software
from runcrate_iac.provision import clock, preflight
from runcrate_iac.provision.facts import Disk, Facts, parse
from runcrate_iac.provision.step import perform

LINES = """\
time 1000
sudo sudo: a password is required
apt yes
lacks wg
lacks nft
uid 1000
release noble
system Ubuntu 24.04.1 LTS
architecture x86_64
memory 8388608
cpus 0-3,6
machine-id 0123456789abcdef0123456789abcdef
host ssh-ed25519 AAAA
host ssh-rsa BBBB
synchronised yes
wireguard kernel
gpu NVIDIA H100 80GB HBM3
gpu NVIDIA H100 80GB HBM3
disk /dev/vda1 ext4 9437184 /
disk /dev/vdb ext4 4194304 /var
disk nas:/home nfs4 99 /home
route default via 192.0.2.1 dev ens5
route local 127.0.0.1 dev lo table local
exports /home
nfs3 /data
runs slurmd
database shop
ray yes
port 51820
locked process 123 (unattended-upgr)
"""
SPEC = ClusterSpec(name="demo", nodes=2, software=Software.SLURM, machine=MachineSpec(gpu="H100", gpus=8))
ROOT = Disk(device="/dev/vda1", type="ext4", free=20 * GIB, path="/")
HOME = Disk(device="nas:/home", type="nfs4", free=20 * GIB, path="/home")


def network(nodes: int, *, simulated: bool = True) -> NetworkPlan:
    """So many machines."""
    hosts = [f"192.0.2.{i + 1}" for i in range(nodes)]
    return plan(
        [Machine(index=i, id=host, host=host, user="ada", gpus_simulated=simulated) for i, host in enumerate(hosts)]
    )


def machine(index: int, **fields: Any) -> Facts:
    """A machine with which nothing is wrong."""
    usual = Facts(
        offset=0.0,
        uid="1000",
        release="trixie",
        system="Debian GNU/Linux 13 (trixie)",
        architecture="x86_64",
        memory=8 * GIB,
        cpus=4,
        machine_id=f"{index:032x}",
        host_keys=(f"ssh-ed25519 {index}",),
        wireguard="kernel",
        disks=(ROOT, ROOT, ROOT),
    )
    return usual.model_copy(update=fields)


def refused(*odd: dict[str, Any], simulated: bool = True) -> list[tuple[str | None, str, str]]:
    """Node, reason and fact of what keeps machines out that differ from good ones in these fields."""
    facts = {index: machine(index, **fields) for index, fields in enumerate(odd)}
    found = preflight.refusals(network(len(odd), simulated=simulated), SPEC, facts, frozenset(facts))
    assert all(condition.remedy for condition in found)
    return [(condition.node, condition.reason, condition.message) for condition in found]


def test_what_a_machine_tells_is_understood() -> None:
    """Every line of the look becomes a fact."""
    assert parse(LINES.splitlines(), now=400.0) == Facts(
        offset=600.0,
        synchronised=True,
        sudo="sudo: a password is required",
        lacks=("wg", "nft"),
        uid="1000",
        release="noble",
        system="Ubuntu 24.04.1 LTS",
        architecture="x86_64",
        memory=8 * GIB,
        cpus=5,
        machine_id="0123456789abcdef0123456789abcdef",
        host_keys=("ssh-ed25519 AAAA", "ssh-rsa BBBB"),
        wireguard="kernel",
        gpus=("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        disks=(
            Disk(device="/dev/vda1", type="ext4", free=9 * GIB, path="/"),
            Disk(device="/dev/vdb", type="ext4", free=4 * GIB, path="/var"),
            Disk(device="nas:/home", type="nfs4", free=99 * 1024, path="/home"),
        ),
        port_taken=True,
        exports=("/home",),
        nfs3=("/data",),
        slurm=("slurmd",),
        databases=("shop",),
        ray=True,
        locked="process 123 (unattended-upgr)",
    )


def test_a_container_is_no_machine_for_kubernetes() -> None:
    """Of machines of the user's own, what looks like a container is one, whatever the spec calls it (C17)."""
    assert parse([*LINES.splitlines(), "container yes"], now=0).container  # type: ignore[union-attr]
    facts = {0: machine(0), 1: machine(1, container=True)}
    kubernetes = SPEC.model_copy(update={"software": Software.KUBERNETES})
    (found,) = preflight.refusals(network(2), kubernetes, facts, frozenset(facts))
    assert (found.node, found.reason) == ("node-1", "IsContainer")
    assert "node-1 is a container" in found.message
    assert found.remedy
    assert preflight.refusals(network(2), SPEC, facts, frozenset(facts)) == []


def test_a_machine_that_serves_others_is_refused() -> None:
    """A node takes nothing from others: no NFS exports or mounts, no database, no Slurm, no Ray (C9)."""
    assert refused({}, {"exports": ("/home",)}) == []
    assert refused({"exports": ("/home",), "joined": True}, {"slurm": ("slurmd",), "joined": True}) == []
    assert refused({"databases": ("shop",), "joined": True}, {"ray": True, "joined": True}) == []
    assert [found[:2] for found in refused({"databases": ("shop", "wiki")}, {"ray": True})] == [
        ("node-0", "DatabaseInUse"),
        ("node-1", "RayInUse"),
    ]
    assert refused({"exports": ("/home", "/srv")}, {"nfs3": ("/data",)}, {"slurm": ("slurmctld", "slurmd")}) == [
        ("node-0", "NfsInUse", "node-0 exports /home, /srv by NFS, and a head's NFS serves the cluster alone"),
        ("node-1", "NfsInUse", "node-1 has mounts by NFS 3, whose helpers a node stops: /data"),
        ("node-2", "SlurmInUse", "node-2 is in another Slurm cluster, for which it runs slurmctld and slurmd"),
    ]


def test_a_port_that_another_wireguard_has_is_told_before_anything_is_changed() -> None:
    """A machine whose own WireGuard has the cluster's port is refused; a node's own use of it is none (C8)."""
    assert refused({"port_taken": True, "joined": True}, {}) == []
    assert refused({}, {"port_taken": True}) == [
        ("node-1", "PortTaken", "UDP port 51820 of node-1, which the cluster's WireGuard needs, is in use")
    ]


def test_a_cluster_that_is_up_keeps_its_users_numbers() -> None:
    """Only a new node must have the number that the login user has on the others (C4)."""
    assert refused({"uid": "1000", "joined": True}, {"uid": "1001", "joined": True}) == []
    (found,) = refused({"uid": "1000", "joined": True}, {"uid": "1000", "joined": True}, {"uid": "1001"})
    assert found[:2] == ("node-2", "OtherUid")


def test_two_machines_with_one_address_are_refused() -> None:
    """Before anything is connected, both nodes and the address are named (C2)."""
    machines = tuple(Machine(index=i, id=f"m{i}", host="192.0.2.1") for i in range(2))
    made = Made(cluster_id="t", deadline=datetime.now(UTC), price_per_hour=Money(usd=Decimal(0)), machines=machines)
    outcome = perform(Step.JOIN, StepInput(spec=ClusterSpec(name="t"), made=made), 0.0, print)
    (refusal,) = outcome.conditions
    assert (outcome.ok, refusal.reason) == (False, "EqualAddresses")
    assert refusal.message == "node-0 and node-1 have the same SSH address 192.0.2.1:22"


def test_equal_machines_can_join() -> None:
    """64 machines with which nothing is wrong are not refused."""
    assert refused(*[{}] * 64) == []


def test_a_login_without_a_shell_is_told_in_the_machines_words() -> None:
    """An image that wants another login user says so, and that is the fact (C2)."""
    said = ["", 'Please login as the user "ubuntu" rather than the user "root".', ""]
    assert parse(said, now=0.0) is None
    refusal = preflight.no_shell(network(2).nodes[1], said)
    assert (refusal.node, refusal.reason) == ("node-1", "NoShell")
    assert 'as the user "ubuntu"' in refusal.message


@pytest.mark.parametrize(
    ("odd", "reason", "fact"),
    [
        ({"sudo": "sudo: a password is required"}, "NoSudo", "user ada can't become root: sudo: a password is requi"),
        ({"release": "buster", "system": "Debian 10"}, "SystemUnsupported", "Debian 10 is not supported"),
        ({"apt": False, "system": "Rocky Linux 9.4"}, "SystemUnsupported", "Rocky Linux 9.4 has no apt-get and dpkg"),
        ({"wireguard": ""}, "NoWireGuard", "its kernel has no WireGuard, and there is no /dev/net/tun"),
        ({"disks": (ROOT.model_copy(update={"free": GIB // 2}),) * 2}, "DiskFull", "0.5 GiB free on /, 1.5 GiB are ne"),
        ({"taken": ("ens5 has 10.77.0.0/25",)}, "NetworkTaken", "ens5 has 10.77.0.0/25"),
    ],
)
def test_a_machine_that_cannot_be_a_node_is_named(odd: dict[str, Any], reason: str, fact: str) -> None:
    """What is wrong with both machines is told of both, each with the fact and a remedy."""
    found = refused(odd, odd)
    assert [(node, what) for node, what, _ in found] == [("node-0", reason), ("node-1", reason)]
    assert all(message.startswith(fact) for _, _, message in found)


def test_a_node_that_joined_before_may_have_little_room() -> None:
    """The room is for packages, which a node that joins again has (C4)."""
    full = (ROOT.model_copy(update={"free": 0}),)
    assert refused({"disks": full, "joined": True}, {}) == []


@pytest.mark.parametrize(
    ("odd", "reason", "fact"),
    [
        ({"uid": "1001"}, "OtherUid", "has number 1001 for its login user where 3 of 4 nodes have number 1000 for"),
        ({"cpus": 2}, "OtherCpus", "has 2 CPUs where 3 of 4 nodes have 4 CPUs"),
        ({"memory": 7 * GIB}, "OtherMemory", "has 7.0 GiB of memory where 3 of 4 nodes have 8.0 GiB of memory"),
        (
            {"architecture": "aarch64"},
            "OtherArchitecture",
            "has aarch64 processors where 3 of 4 nodes have x86_64 proc",
        ),
        (
            {"release": "noble", "system": "Ubuntu 24"},
            "OtherSystem",
            "has Ubuntu 24 where 3 of 4 nodes have Debian GNU",
        ),
    ],
)
@pytest.mark.parametrize("index", [0, 2])
def test_the_machine_that_differs_is_named(index: int, odd: dict[str, Any], reason: str, fact: str) -> None:
    """Of four machines the one that is unlike the others is named, the head too, and how (C1)."""
    machines: list[dict[str, Any]] = [{}, {}, {}, {}]
    machines[index] = odd
    ((node, what, message),) = refused(*machines)
    assert (node, what) == (f"node-{index}", reason)
    assert message.startswith(f"node-{index} {fact}")


def test_of_two_machines_that_differ_the_head_is_right() -> None:
    """Where no side is in the majority, the other is named beside the head (C1)."""
    assert refused({"cpus": 8}, {"cpus": 4}) == [("node-1", "OtherCpus", "node-1 has 4 CPUs where node-0 has 8 CPUs")]


def test_memory_may_differ_a_little() -> None:
    """Firmware keeps some memory: machines within five percent are equal (C1)."""
    assert refused({"memory": 100 * GIB}, {"memory": 97 * GIB}, {"memory": 95 * GIB}) == []
    assert [node for node, *_ in refused({"memory": 100 * GIB}, {"memory": 94 * GIB})] == ["node-1"]


def test_a_missing_gpu_is_counted() -> None:
    """7 of 8 real GPUs are refused by number and node (F22); simulated ones are made later."""
    whole = {"gpus": ("NVIDIA H100",) * 8}
    assert refused(whole, whole, {"gpus": ("NVIDIA H100",) * 7}, simulated=False) == [
        ("node-2", "WrongGpuCount", "7 of 8 GPUs on node-2")
    ]
    assert refused(whole, whole, simulated=False) == []
    assert refused({}, {}) == []


def test_other_gpus_are_named() -> None:
    """GPUs of another model are a difference (C1)."""
    h100, h200 = {"gpus": ("NVIDIA H100",) * 8}, {"gpus": ("NVIDIA H200",) * 8}
    assert refused(h100, h200, h100, simulated=False) == [
        ("node-1", "OtherGpus", "node-1 has NVIDIA H200 where 2 of 3 nodes have NVIDIA H100")
    ]


def test_equal_host_keys_are_refused() -> None:
    """Clones of one image, or one machine with two addresses, are named both (F2, X4)."""
    same = {"host_keys": ("ssh-rsa A", "ssh-ed25519 B")}
    ((node, reason, message),) = refused(same, {}, same)
    assert (node, reason) == ("node-2", "EqualKeys")
    assert message.startswith("node-0 and node-2 have the same SSH host key")


def test_a_shared_home_is_refused() -> None:
    """Nodes that share the login user's home would write their keys over each other's."""
    shared, own = {"disks": (ROOT, ROOT, HOME)}, {"disks": (ROOT, ROOT, HOME.model_copy(update={"device": "nas:/2"}))}
    assert refused(shared, own) == []
    ((node, reason, message),) = refused(shared, own, shared)
    assert (node, reason) == ("node-2", "HomeShared")
    assert message == "node-0 and node-2 share the home folder of user ada (nas:/home)"


@pytest.mark.parametrize(
    ("ids", "unfit"),
    [
        (["a" * 32, "b" * 32], set()),
        (["a" * 32, "b" * 32, "a" * 32, "a" * 32], {2, 3}),
        (["", "uninitialized", "a" * 32], {0, 1}),
    ],
)
def test_equal_and_missing_machine_ids_are_made_anew(ids: list[str], unfit: set[int]) -> None:
    """Of machines with one id the later ones get a new one, and so does a machine that has none (F2)."""
    facts = {index: machine(index, machine_id=one) for index, one in enumerate(ids)}
    assert preflight.unfit_ids(network(len(ids)), facts, frozenset(facts)) == unfit


def test_the_slower_wireguard_is_news() -> None:
    """A kernel without WireGuard is told, and is no fault (C15)."""
    facts = {0: machine(0), 1: machine(1, wireguard="tun")}
    assert preflight.refusals(network(2), SPEC, facts, frozenset(facts)) == []
    news = preflight.slower(network(2), facts)
    assert news
    assert (news.status, news.reason) == ("true", "UserSpace")
    assert "kernel of node-1:" in news.message
    assert preflight.slower(network(1), {0: machine(0)}) is None


@pytest.mark.parametrize(
    ("route", "taken"),
    [
        ("default via 10.0.2.2 dev ens5 proto static", ()),
        ("10.0.0.0/8 dev tun0 scope link", ()),
        ("110.77.0.0/24 dev ens5", ()),
        ("10.77.0.0/24 dev wg-runcrate proto kernel scope link src 10.77.0.1", ()),
        ("local 10.77.0.1 dev wg-runcrate table local", ()),
        ("10.77.0.0/24 via 192.0.2.9 dev tun0 table 52", ("tun0 has 10.77.0.0/24",)),
        ("10.77.0.128/25 dev docker0", ("docker0 has 10.77.0.128/25",)),
        ("local 10.77.0.9 dev ens5 table local proto kernel", ("ens5 has 10.77.0.9",)),
        ("blackhole 10.77.0.0/24", ("blackhole has 10.77.0.0/24",)),
        ("default via 10.77.0.1 dev ens5", ("ens5 has the gateway 10.77.0.1",)),
        ("nexthop via 10.77.0.1 dev ens5 weight 1", ("ens5 has the gateway 10.77.0.1",)),
        ("192.0.2.0/24 via inet6 fe80::1 dev ens5", ()),
    ],
)
def test_who_uses_the_private_network_already(route: str, taken: tuple[str, ...]) -> None:
    """Addresses, routes and gateways within 10.77.0.0/24 that aren't ours are found, wider routes are not (C15)."""
    facts = parse(["time 0", f"route {route}"], now=0.0)
    assert facts
    assert facts.taken == taken


@pytest.mark.parametrize(
    ("route", "taken"),
    [
        ("10.78.3.0/24 dev cni0", ("cni0 has 10.78.3.0/24",)),
        ("10.79.0.0/16 dev tun0", ("tun0 has 10.79.0.0/16",)),
        ("10.78.0.0/16 dev wg-runcrate", ()),
        ("10.78.0.7 dev veth1a2b scope host", ()),
    ],
)
def test_who_uses_the_networks_of_pods_and_services(route: str, taken: tuple[str, ...]) -> None:
    """Where Kubernetes is to run, its networks have to be free too; elsewhere they are nobody's business (C15)."""
    lines = ["time 0", f"route {route}"]
    facts, others = parse(lines, 0.0, networks(Software.KUBERNETES)), parse(lines, 0.0, networks(Software.SLURM))
    assert facts
    assert others
    assert (facts.taken, others.taken) == (taken, ())


@pytest.mark.parametrize(
    ("offsets", "synchronised", "wrong"),
    [
        ([0, 29], (), {}),
        ([0, 600], (), {1: -600}),
        ([600, 0], (), {1: 600}),
        ([600, 0, 1], (), {0: -599}),
        ([0, 600, 1, 2], (), {1: -600}),
        ([0, 600], (1,), {0: 600}),
        ([-5000, -5000], (), {}),
    ],
)
def test_wrong_clocks_are_corrected(offsets: list[float], synchronised: tuple[int, ...], wrong: dict[int, int]) -> None:
    """A clock over 30 s off follows a time service, else the head, else the majority; never this computer (F6)."""
    facts = {i: machine(i, offset=float(o), synchronised=i in synchronised) for i, o in enumerate(offsets)}
    assert clock.corrections(facts, facts) == wrong
