"""The lease on real machines: what is left when the computer that makes a cluster is no more (X2)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from runcrate_iac.model.network import MachineState
from runcrate_iac.model.progress import Step
from tests.hosts.conftest import Computer
from tests.hosts.own import BLOCKED, LOOK, ROOT, Own, changes, lent
from tests.machines import until, virtual_machines

pytestmark = pytest.mark.hosts

JOIN_SECONDS = 25 if ROOT else 60
INSTALL_SECONDS = 45 if ROOT else 90
"""How long a join may take, and a join, storage and Slurm; virtual machines may be emulated."""


@pytest.fixture(scope="module")
def own(any_computer: Computer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """Two machines that no cluster has reserved and no lease of their own ends."""
    with lent("own", 2, any_computer, tmp_path_factory.mktemp("own")) as found:
        yield found


def test_a_join_whose_controller_died_is_undone_at_its_deadline(own: Own) -> None:
    """The user's machines are what they were, file by file, when the lease of a killed join runs out (X2, C8)."""
    own.shell(1, "nft -f -" + BLOCKED)  # so that the join is still at work whenever it is killed
    before = own.each(LOOK)
    document, seen = own.reserve(seconds=JOIN_SECONDS), len(own.news())
    join = own.start("provision", Step.JOIN, document(Step.JOIN))
    until(lambda: "WireGuard, firewall, SSH" in own.news()[seen:], "the configuration of the nodes")
    time.sleep(random.SystemRandom().uniform(0, 5))
    os.killpg(join.pid, signal.SIGKILL)
    join.communicate()
    assert "/etc/wireguard" in own.shell(1, "cat /var/lib/runcrate/before/list")
    until(lambda: set(own.each("ls -d /var/lib/runcrate 2> /dev/null || :")) == {""}, "the end of the lease")
    assert changes(before, own.each(LOOK)) == []
    own.shell(1, "nft delete table inet silent")


def test_a_cluster_outlives_its_deadline_and_leaves_machines_as_they_were(own: Own) -> None:
    """After the common moment no lease ends it, and its end undoes what all steps did (X2, C7, C22)."""
    before = own.each(LOOK)
    begun = time.time()
    document = own.reserve(seconds=INSTALL_SECONDS, software="slurm")
    own.run("provision", Step.JOIN, document(Step.JOIN))
    joined = time.time()
    for step in (Step.STORAGE, Step.SOFTWARE):
        own.run("provision", step, document(step))
    time.sleep(max(0, begun + INSTALL_SECONDS + 25 - time.time()))
    assert "2" in own.shell(0, "sinfo -h -o %D -t idle"), f"joined after {joined - begun:.0f} s"
    assert changes(before, own.each(LOOK)) != []
    own.run("provision", "leave", document(Step.JOIN))
    assert changes(before, own.each(LOOK)) == []


def test_no_machine_runs_when_the_lease_of_a_dead_computer_is_over(computer: Computer) -> None:
    """Everything but the machines is killed at a random moment: each powers itself off, and `down` ends it (X2, C8)."""
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    up = computer.start("up", computer.spec(name="dead", software="none", join_timeout=14), "--yes")
    until(lambda: consoles(computer, "dead").count("virtual machine fork") == 2, "two machines that run")
    time.sleep(random.Random(seed).uniform(0, 8))  # noqa: S311 - a moment, not a secret
    kill_all_but_machines(up.pid)
    up.communicate(timeout=10)
    assert virtual_machines("dead") != []
    until(lambda: virtual_machines("dead") == [], "no machine that runs")
    states = set(computer.status("dead")["machine_states"].values())
    assert MachineState.RUNNING not in states
    assert MachineState.BOOTING not in states
    assert computer.run("down", "dead", "--yes").returncode == 0
    assert computer.leftovers("dead") == []


def consoles(computer: Computer, name: str) -> str:
    """What the machines of a cluster wrote on their consoles."""
    logs = (computer.home / "machines").glob(f"{name}-*/node-*/console.log")
    return "".join(log.read_text(errors="replace") for log in logs)


def kill_all_but_machines(pid: int) -> None:
    """What the death of the computer is to everything that it runs: nothing of ours has time to tidy up."""
    top = psutil.Process(pid)
    processes = [top, *top.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if "qemu" not in process.name():
                process.kill()
