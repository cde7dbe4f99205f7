"""The lease on real machines: what is left when the computer that makes a cluster is no more (X2)."""

from __future__ import annotations

import difflib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from runcrate_iac.components import documents
from runcrate_iac.model.network import MachineState
from runcrate_iac.model.progress import Step
from tests.hosts.conftest import Computer
from tests.machines import until, virtual_machines

pytestmark = pytest.mark.hosts

OWNER = "organization/lab/dev"
ROOT = os.geteuid() == 0
MACHINE = {"kind": "container" if ROOT else "vm"}
JOIN_SECONDS = 25 if ROOT else 60
INSTALL_SECONDS = 45 if ROOT else 90
"""How long a join may take, and a join, storage and Slurm; virtual machines may be emulated."""
BLOCKED = """ << 'END'
table inet silent {
  chain input {
    type filter hook input priority filter - 1
    udp dport 51820 drop
  }
}
END
"""
"""A firewall through which no WireGuard handshake comes."""
LOOK = r"""
set -- /etc /usr/local /root/.ssh /home/runcrate/.ssh /var/lib/runcrate /shared
find "$@" ! -name '*-' -printf '%p %y %m %u:%g %l\n' 2> /dev/null | sort
find "$@" ! -name '*-' -type f -exec sha256sum {} + 2> /dev/null | sort -k 2
ls /dev/simulated-gpu* 2> /dev/null
hostname; cat /etc/hosts; wg show; nft list ruleset; ip -4 -o address | cut -d ' ' -f 1-7
ss -Hlntu | awk '{ print $1, $5 }' | sort
systemctl list-units --no-legend --plain --state=active --type=service,mount,timer,automount,scope |
  awk '!/1000|session-|unclaimed|wait-online|fs-nfsd|rpc_pipefs/ { print $1, $4 }'
"""
"""A machine as it is: each file's mode, owner and content, names, networks, ports, units. ``*-`` are backups of tools;
the kernel's file systems for NFS stay where the packages are."""


@dataclass(frozen=True)
class Own:
    """Two machines of the user's, and a cluster that is made of them."""

    computer: Computer
    given: list[Mapping[str, Any]]
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, module: str, verb: str, document: str) -> subprocess.Popen[str]:
        """Start a step's process, in a group of its own, as Pulumi does."""
        command = [sys.executable, "-m", f"runcrate_iac.{module}", verb]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=self.computer.env, start_new_session=True
        )
        self.started.append(process)
        assert process.stdin
        process.stdin.write(document)
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, module: str, verb: str, document: str) -> str:
        """What a step prints; it must succeed."""
        process = self.start(module, verb, document)
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        return said

    def reserve(self, seconds: int, software: str = "none") -> Callable[[Step], str]:
        """Begin a cluster of them that must join in so many seconds; what gives each step's document."""
        spec = documents.spec_of(
            "own",
            {
                "nodes": 2,
                "machines": self.given,
                "machine": MACHINE,
                "join_timeout": seconds,
                "software": software,
            },
        )
        job = documents.machines_document(spec, OWNER, self.given)
        self.run("machines", "release", job)
        made = self.run("machines", "reserve", job)
        return lambda step: documents.step_document(spec, step, OWNER, made)

    def news(self) -> str:
        """What the steps have told."""
        feed = self.computer.home / "clusters" / "own" / "progress.jsonl"
        return feed.read_text() if feed.exists() else ""

    def shell(self, index: int, script: str) -> str:
        """What a script prints on a machine, as root."""
        machine = documents.given_machines("own", self.given)[index]
        known = self.folder / f"known_hosts-{index}"
        known.write_text(f"m{index} {machine.host_key}\n")
        options = [f"UserKnownHostsFile={known}", f"HostKeyAlias=m{index}", "BatchMode=yes"]
        words = [word for option in options for word in ("-o", option)]
        login = ["ssh", *words, "-i", str(machine.identity_file), "-p", str(machine.port), f"root@{machine.host}"]
        done = subprocess.run([*login, "sh -s"], input=script, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout

    def both(self, script: str) -> list[str]:
        """The same on both, at once."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda index: self.shell(index, script), (0, 1)))


@pytest.fixture(scope="module")
def own(any_computer: Computer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """Two machines that no cluster has reserved and no lease of their own ends."""
    pool = documents.pool_of("own", OWNER, {"nodes": 2, "machine": MACHINE})
    empty = Own(any_computer, [], tmp_path_factory.mktemp("own"))
    found = empty
    try:
        found = Own(any_computer, json.loads(empty.run("machines.pool", "reserve", pool)), empty.folder)
        found.both("systemctl disable -q --now runcrate-lease.timer; printf '192.0.2.9\tprinter' >> /etc/hosts")
        yield found
    finally:
        for process in found.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        empty.run("machines.pool", "release", pool)


def test_a_join_whose_controller_died_is_undone_at_its_deadline(own: Own) -> None:
    """The user's machines are what they were, file by file, when the lease of a killed join runs out (X2, C8)."""
    own.shell(1, "nft -f -" + BLOCKED)  # so that the join is still at work whenever it is killed
    before = own.both(LOOK)
    document, seen = own.reserve(seconds=JOIN_SECONDS), len(own.news())
    join = own.start("provision", Step.JOIN, document(Step.JOIN))
    until(lambda: "WireGuard, firewall, SSH" in own.news()[seen:], "the configuration of the nodes")
    time.sleep(random.SystemRandom().uniform(0, 5))
    os.killpg(join.pid, signal.SIGKILL)
    join.communicate()
    assert "/etc/wireguard" in own.shell(1, "cat /var/lib/runcrate/before/list")
    until(lambda: set(own.both("ls -d /var/lib/runcrate 2> /dev/null || :")) == {""}, "the end of the lease")
    assert changes(before, own.both(LOOK)) == []
    own.shell(1, "nft delete table inet silent")


def test_a_cluster_outlives_its_deadline_and_leaves_machines_as_they_were(own: Own) -> None:
    """After the common moment no lease ends it, and its end undoes what all steps did (X2, C7, C22)."""
    before = own.both(LOOK)
    begun = time.time()
    document = own.reserve(seconds=INSTALL_SECONDS, software="slurm")
    own.run("provision", Step.JOIN, document(Step.JOIN))
    joined = time.time()
    for step in (Step.STORAGE, Step.SOFTWARE):
        own.run("provision", step, document(step))
    time.sleep(max(0, begun + INSTALL_SECONDS + 25 - time.time()))
    assert "2" in own.shell(0, "sinfo -h -o %D -t idle"), f"joined after {joined - begun:.0f} s"
    assert changes(before, own.both(LOOK)) != []
    own.run("provision", "leave", document(Step.JOIN))
    assert changes(before, own.both(LOOK)) == []


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


def changes(before: list[str], after: list[str]) -> list[str]:
    """The lines that came and went, on both machines."""
    return [
        line
        for one, two in zip(before, after, strict=True)
        for line in difflib.unified_diff(one.splitlines(), two.splitlines(), n=0, lineterm="")
    ]


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
