"""Container machines of this computer: what is refused, addresses, the image, and what they don't share."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

import pytest

from runcrate_iac.errors import SpecError, StepFailed
from runcrate_iac.machines.local.capacity import GIB, Room
from runcrate_iac.machines.local.container import host, network, process, tree
from runcrate_iac.model import storage
from runcrate_iac.model.conditions import broken
from runcrate_iac.model.network import NetworkPlan
from runcrate_iac.model.slurm import Hardware, has_cgroups
from runcrate_iac.model.spec import Kind, MachineSpec
from runcrate_iac.provision.checks import verdicts
from tests.spec.test_slurm import network as plan_of_two

PLENTY = Room(memory=1024 * GIB, disk=1024 * GIB)
CONTAINER = MachineSpec(kind=Kind.CONTAINER)


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A computer on which container machines can run."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    monkeypatch.setattr(host, "_has_tun", lambda: True)
    monkeypatch.setattr(host, "_has_cgroup2", lambda: True)
    return monkeypatch


@pytest.mark.parametrize(
    ("where", "name", "value", "fact"),
    [
        (os, "geteuid", lambda: 1000, "need root, which you are not"),
        (sys, "platform", "darwin", "need Linux, this is darwin"),
        (shutil, "which", lambda name, path=None: None, "need systemd-nspawn, ip, mmdebstrap"),
        (host, "_has_tun", lambda: False, "need /dev/net/tun"),
        (host, "_has_cgroup2", lambda: False, "need cgroup v2"),
    ],
)
def test_what_containers_need_is_told(
    able: pytest.MonkeyPatch, where: object, name: str, value: object, fact: str
) -> None:
    """Where container machines can't run, the field, the fact and another way are told, before anything starts (C3)."""
    host.check(CONTAINER, 2, PLENTY)
    able.setattr(where, name, value)
    with pytest.raises(SpecError) as refused:
        host.check(CONTAINER, 2, PLENTY)
    assert refused.value.message == f"machine.kind: container machines on this computer {fact}"
    assert "kind: vm" in refused.value.remedy


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("free", [Room(memory=GIB, disk=1024 * GIB), Room(memory=1024 * GIB, disk=GIB)])
def test_containers_that_find_no_room_are_refused(free: Room) -> None:
    """64 containers on a computer with 1 GiB of memory or disk are refused, naming `nodes` (C1)."""
    with pytest.raises(SpecError, match=r"nodes: 64 container machines need .* 1\.0 GiB are free"):
        host.check(CONTAINER, 64, free)


@pytest.fixture
def limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The limits of a computer that is a container itself, or works in another network namespace than the first."""
    monkeypatch.setattr(host, "SYSCTL", tmp_path)
    found = tmp_path / "fs/inotify/max_user_instances"
    found.parent.mkdir(parents=True)
    found.write_text("128\n")
    return found


def test_limits_that_are_not_there_are_passed_over(limits: Path) -> None:
    """Those of the network, which such a computer does not show, keep no machine from starting (C1)."""
    told: list[str] = []
    host.raise_limits(host.MANY, lambda message, node: told.append(message))
    assert (told, limits.read_text()) == ([], "128\n")
    for _ in range(2):
        host.raise_limits(host.MANY + 1, lambda message, node: told.append(message))
    assert told == ["raised fs.inotify.max_user_instances of this computer from 128 to 8192"]
    assert limits.read_text() == "8192\n"


def test_a_limit_that_cant_be_raised_ends_the_attempt(limits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only /proc/sys names the limit and the command for it, instead of being tried until the deadline (C8)."""

    def refuse(file: Path, text: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(file), text)

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(StepFailed, match="which is 128 here and can't be raised: Read-only file system") as failed:
        host.raise_limits(host.MANY + 1, lambda message, node: None)
    assert "sysctl -w fs.inotify.max_user_instances=8192" in failed.value.remedy
    assert limits.read_text() == "128\n"


@pytest.mark.usefixtures("able")
def test_an_image_of_ones_own_is_for_virtual_machines() -> None:
    """A qcow2 image is refused for containers, naming the field."""
    with pytest.raises(SpecError, match=r"machine\.image"):
        host.check(CONTAINER.model_copy(update={"image": "/a.qcow2"}), 2, PLENTY)


def test_addresses_of_64_nodes_fit_into_a_subnet() -> None:
    """Each node has an address of its own, and none is this computer's (C1)."""
    subnet = network.SUBNETS[-1]
    addresses = {network.address(subnet, index) for index in range(64)}
    assert len(addresses) == 64
    assert all(address in subnet and address != subnet[1] for address in addresses)


def test_a_process_carries_its_mark() -> None:
    """A container's process has the machine's mark among its words, so that any later command finds it (C7)."""
    assert "c-1.node-0" in process.command("c-1.node-0", Path("/image"), "runcrate-c-1")


def test_the_image_has_what_a_node_needs_and_no_kernel() -> None:
    """The root file system has Slurm and the user-space WireGuard; a kernel would never run in it."""
    packages = tree.packages()
    assert {"wireguard-go", "slurmd", "openssh-server"} <= set(packages)
    assert not [name for name in packages if name.startswith("linux-image")]


def test_containers_share_no_folder() -> None:
    """Containers keep the hostfile on their own disks, other machines in /shared (C21)."""
    assert storage.hostfile(CONTAINER) == "/etc/runcrate/hostfile"
    assert storage.hostfile(MachineSpec()) == "/shared/hostfile"


@pytest.mark.parametrize("shared", [True, False])
def test_the_suite_asks_for_a_shared_folder_where_there_is_one(shared: bool) -> None:
    """The acceptance suite demands /shared of machines that have it, and the right hostfile of all (C21, X3)."""
    plan: NetworkPlan = plan_of_two(simulated=True)
    lines = [*(f"name {node.name} {node.address}" for node in plan.nodes), "gpus 8", "hostfile node-0 slots=8"]
    wanted = ("/etc/runcrate/hostfile", ["node-0 slots=8"])
    bad = broken(verdicts(plan, plan.head, 8, wanted, lines, present=plan, shared=shared))
    assert {one.type for one in bad} == ({"SharedMounted", "SharedWorks"} if shared else set())
    (wrong,) = broken(verdicts(plan, plan.head, 8, wanted, lines[:-1], present=plan, shared=False))
    assert wrong.message == "/etc/runcrate/hostfile is not what the cluster is on node-0"


def test_slurm_relies_on_no_cgroups_in_containers() -> None:
    """One container among the nodes is enough for Slurm to do without cgroups, on all alike (C6)."""
    fields = {"codename": "trixie", "memory": 1, "cpus": 1, "cores": 1, "sockets": 1, "cgroup_v2": True, "gpus": []}
    machine, container = (Hardware.model_validate(fields | {"container": inside}) for inside in (False, True))
    assert has_cgroups({0: machine})
    assert not has_cgroups({0: machine, 1: container})
