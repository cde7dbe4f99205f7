"""Two real virtual machines of the local provider, from the warm start to the release."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.local import LocalProvider, process
from runcrate_iac.machines.local.accelerator import starts_a_kernel
from runcrate_iac.machines.local.image import golden_image
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, MachineState
from runcrate_iac.model.spec import MachineSpec
from runcrate_iac.paths import machines_dir
from tests.machines import listed, release, reserve

pytestmark = pytest.mark.hosts

CLUSTER = "local-test-0001"
BOOT_SECONDS = 600.0
MAKER = """
import sys, time
from runcrate_iac.machines.local import LocalProvider
from runcrate_iac.machines.provider import Reservation
from tests.machines import reserve
request = Reservation.model_validate_json(sys.stdin.read())
reserve(LocalProvider(), request, lambda message, node: print(node, message, file=sys.stderr))
print("reserved", flush=True)
time.sleep(600)
"""


def tell(message: str, node: str | None) -> None:
    """Shown by pytest where the test fails."""
    print(node or "", message)


@dataclass(frozen=True)
class Pair:
    """The two machines under test, and how to log in to them as people do: host keys checked strictly."""

    request: Reservation
    folder: Path

    @property
    def machines(self) -> list[Machine]:
        """What the provider lists now."""
        return listed(LocalProvider(), self.request.cluster_id)

    def ssh(self, index: int, command: str, user: str = "root") -> str:
        """What ``command`` prints on the node."""
        machine = self.machines[index]
        known = self.folder / f"known_hosts-{index}"
        known.write_text(f"node-{index} {machine.host_key}\n")
        options = {
            "UserKnownHostsFile": str(known),
            "HostKeyAlias": f"node-{index}",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "20",
            "IdentityFile": str(machine.identity_file),
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        login = ["ssh", *words, "-p", str(machine.port), f"{user}@{machine.host}", command]
        return subprocess.run(login, check=True, capture_output=True, text=True, timeout=120).stdout.strip()

    def both(self, command: str) -> list[str]:
        """What it prints on node 0 and node 1, run at the same time."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda index: self.ssh(index, command), (0, 1)))

    def wait_for(self, command: str, index: int, expected: str) -> None:
        """Ask again until the node prints that; a node that boots does not answer at first."""
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                if (last := self.ssh(index, command)) == expected:
                    return
            except subprocess.SubprocessError as error:
                last = str(error)
            assert time.monotonic() < deadline, f"node-{index}: {command!r} gives {last!r}, not {expected!r}"
            time.sleep(1)


def reservation(folder: Path, cluster_id: str, seconds: float = 1500) -> Reservation:
    """Two default machines, with a key of their own."""
    key = folder / "id_ed25519"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return Reservation(
        cluster_id=cluster_id,
        nodes=2,
        machine=MachineSpec(),
        authorized_keys=(key.with_suffix(".pub").read_text().strip(),),
        identity_file=key,
        deadline=time.time() + seconds,
    )


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """State of its own for this file; the user's image cache is used."""
    folder = tmp_path_factory.mktemp("local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNCRATE_IAC_HOME", str(folder / "home"))
        yield folder


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[Pair]:
    """Machines that another process reserved, which then was interrupted and killed."""
    LocalProvider().prepare(MachineSpec(), None, tell)
    request = reservation(folder, CLUSTER)
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert maker.stdin is not None
    assert maker.stdout is not None
    try:
        maker.stdin.write(request.model_dump_json())
        maker.stdin.close()
        assert maker.stdout.readline() == "reserved\n"
        for sign in (signal.SIGINT, signal.SIGKILL):
            os.killpg(maker.pid, sign)
        maker.wait()
        maker.stdout.close()
        yield Pair(request, folder)
    finally:
        release(LocalProvider(), CLUSTER, tell)


def test_machines_survive_the_process_that_made_them(pair: Pair) -> None:
    """A process that knows only the mark finds both machines running after their maker was killed (C4)."""
    assert [(m.index, m.state) for m in pair.machines] == [(0, MachineState.RUNNING), (1, MachineState.RUNNING)]


def test_the_host_key_is_known_before_the_first_contact(pair: Pair) -> None:
    """SSH with strict checking accepts the host key that the provider told, for both users (X9)."""
    assert pair.both("hostname") == ["node-0", "node-1"]
    assert pair.ssh(0, "sudo -n id -u", user="runcrate") == "0"


@pytest.mark.parametrize(
    "command",
    [
        "wg genkey",
        "cat /etc/ssh/ssh_host_ed25519_key.pub",
        "cat /etc/machine-id",
        "head -c 32 /dev/urandom | sha256sum",
        "cat /proc/sys/kernel/random/uuid",
    ],
)
def test_clones_share_no_secret(pair: Pair, command: str) -> None:
    """Clones of one snapshot have keys, ids and random numbers of their own (C19)."""
    first, second = pair.both(command)
    assert first != second


def test_the_lan_joins_the_machines(pair: Pair) -> None:
    """Each machine reaches the other at its endpoint (C15)."""
    endpoints = [machine.endpoint for machine in pair.machines]
    assert endpoints == ["192.168.177.10", "192.168.177.11"]
    assert "2 received" in pair.ssh(0, f"ping -c 2 -W 10 {endpoints[1]}")
    assert "2 received" in pair.ssh(1, f"ping -c 2 -W 10 {endpoints[0]}")


def test_nothing_in_the_guest_failed(pair: Pair) -> None:
    """No unit of either machine has failed, and logs are kept under the machine's own id alone."""
    assert pair.both("systemctl --failed --no-legend") == ["", ""]
    assert pair.both("ls /var/log/journal") == pair.both("cat /etc/machine-id")


def test_the_clock_is_this_computers(pair: Pair) -> None:
    """A clone does not go on with the snapshot's time (C7)."""
    assert all(abs(float(told) - time.time()) < 30 for told in pair.both("date +%s"))


def test_a_second_reservation_adopts(pair: Pair) -> None:
    """To reserve again makes nothing new: the same processes, the same answer (C4)."""
    before = {mark: running.pid for mark, running in process.running(CLUSTER).items()}
    again = reserve(LocalProvider(), pair.request, tell)
    assert list(again) == pair.machines
    assert {mark: running.pid for mark, running in process.running(CLUSTER).items()} == before


def test_identity_lan_and_lease_survive_a_reboot(pair: Pair) -> None:
    """After a reboot a machine is who it was; a lease that ran goes on, and one that was ended stays so (X4)."""
    who = "cat /etc/machine-id; hostname; ip -4 -o address show scope global | awk '{print $4}' | sort"
    before = pair.both(who)
    pair.ssh(0, "systemctl stop runcrate-lease.timer")
    pair.both("systemctl --no-block reboot")
    time.sleep(5)
    for index in (0, 1):
        pair.wait_for("systemctl is-system-running --wait || true", index, "running")
    assert pair.both(who) == before
    assert pair.both("systemctl is-active runcrate-lease.timer || true") == ["inactive", "active"]
    assert "2 received" in pair.ssh(0, "ping -c 2 -W 10 192.168.177.11")


def test_a_machine_that_was_powered_off_starts_again(pair: Pair) -> None:
    """A machine whose process is gone is listed as stopped, and the next reservation starts it from its disk."""
    pair.ssh(0, "echo kept > /root/file && sync")
    process.end([process.running(CLUSTER)[f"{CLUSTER}.node-0"]])
    assert [machine.state for machine in pair.machines] == [MachineState.STOPPED, MachineState.RUNNING]
    machines = reserve(LocalProvider(), pair.request, tell)
    assert [machine.state for machine in machines] == [MachineState.RUNNING, MachineState.RUNNING]
    assert pair.ssh(0, "cat /root/file; systemctl is-active runcrate-lease.timer || true") == "kept\ninactive"


def test_a_lease_that_is_over_powers_the_machine_off(pair: Pair) -> None:
    """A machine that nobody joined in time powers itself off (X1)."""
    pair.ssh(1, "date +%s > /etc/runcrate/lease")
    deadline = time.monotonic() + BOOT_SECONDS
    while pair.machines[1].state is not MachineState.STOPPED:
        assert time.monotonic() < deadline
        time.sleep(1)
    assert pair.machines[0].state is MachineState.RUNNING


def test_release_leaves_no_process_file_or_port(pair: Pair) -> None:
    """After the release, and after a second one, nothing of the cluster is left (X1)."""
    ports = [machine.port for machine in pair.machines]
    provider = LocalProvider()
    for _ in range(2):
        release(provider, CLUSTER, tell)
        assert listed(provider, CLUSTER) == []
    assert not machines_dir(CLUSTER).exists()
    assert not [p for p in psutil.process_iter() if any(CLUSTER in word for word in _words(p))]
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_machine_that_dies_in_its_start_ends_the_wait(folder: Path) -> None:
    """The death of one machine is told at once, with the end of its console, and not when time is up (X1)."""
    request = reservation(folder, "local-test-0002")
    died: list[float] = []

    def kill() -> None:
        while not process.running(f"{request.cluster_id}.node-1"):
            time.sleep(0.1)
        time.sleep(1)  # the first process makes the daemon, and goes
        process.end(list(process.running(f"{request.cluster_id}.node-1").values()))
        died.append(time.monotonic())

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(StepFailed, match=r"node-1: it powered off, or its QEMU ended[\s\S]*crng reseeded"):
            reserve(LocalProvider(), request, tell)
        killer.join()
        assert time.monotonic() - died[0] < 2
    finally:
        killer.join()
        release(LocalProvider(), request.cluster_id, tell)


def test_a_deadline_ends_the_wait(folder: Path) -> None:
    """Machines that do not answer by the deadline are told as such, each with its console (C8)."""
    request = reservation(folder, "local-test-0003", seconds=1)
    try:
        with pytest.raises(StepFailed, match="SSH does not answer after"):
            reserve(LocalProvider(), request, tell)
    finally:
        release(LocalProvider(), request.cluster_id, tell)
    assert listed(LocalProvider(), request.cluster_id) == []


def test_the_trial_knows_a_kernel_that_runs_from_one_that_does_not(tmp_path: Path) -> None:
    """The accelerator's trial says yes to an emulated CPU, and no to a kernel that is none (it never trusts a file)."""
    (tmp_path / "nothing").write_bytes(b"\0" * 4096)
    assert starts_a_kernel("tcg", golden_image(tell).trial_boot(), seconds=120)
    assert not starts_a_kernel("tcg", ["-kernel", str(tmp_path / "nothing")], seconds=5)


def _words(running: psutil.Process) -> list[str]:
    try:
        return running.cmdline()
    except psutil.Error:
        return []
