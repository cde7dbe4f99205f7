"""Machines of the user's own, and a cluster that is made of them step by step, as Pulumi runs the steps."""

from __future__ import annotations

import difflib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runcrate_iac.components import documents
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import ClusterSpec
from tests.hosts.conftest import Computer

OWNER = "organization/lab/dev"
ROOT = os.geteuid() == 0
MACHINE = {"kind": "container" if ROOT else "vm"}
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
    """Machines of the user's, and a cluster that is made of them."""

    name: str
    computer: Computer
    given: list[Mapping[str, Any]]
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    artifacts: Path | None = None

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
        """Begin a cluster of them all that must join in so many seconds; what gives each step's document."""
        if self.name in Ledger(self.computer.home / "ledger.db").clusters():
            self.run("machines", "release", self.document(len(self.given), seconds, software))
        return self.again(len(self.given), seconds, software)

    def again(self, nodes: int, seconds: int, software: str = "none") -> Callable[[Step], str]:
        """Run the machines step with so many of them; what gives each later step's document."""
        made = self.run("machines", "reserve", self.document(nodes, seconds, software))
        spec = self._spec(nodes, seconds, software)
        return lambda step: documents.step_document(spec, step, OWNER, made)

    def document(self, nodes: int, seconds: int, software: str = "none") -> str:
        """The machines step's document."""
        return documents.machines_document(self._spec(nodes, seconds, software), OWNER, self.given[:nodes])

    def _spec(self, nodes: int, seconds: int, software: str) -> ClusterSpec:
        fields = {"machine": MACHINE, "join_timeout": seconds, "software": software}
        if self.artifacts:
            fields["artifacts"] = str(self.artifacts)
        return documents.spec_of(self.name, {"nodes": nodes, "machines": self.given[:nodes], **fields})

    def news(self) -> str:
        """What the steps have told."""
        feed = self.computer.home / "clusters" / self.name / "progress.jsonl"
        return feed.read_text() if feed.exists() else ""

    def shell(self, index: int, script: str) -> str:
        """What a script prints on a machine, as root."""
        machine = documents.given_machines(self.name, self.given)[index]
        known = self.folder / f"known_hosts-{index}"
        known.write_text(f"m{index} {machine.host_key}\n")
        options = [f"UserKnownHostsFile={known}", f"HostKeyAlias=m{index}", "BatchMode=yes"]
        words = [word for option in options for word in ("-o", option)]
        login = ["ssh", *words, "-i", str(machine.identity_file), "-p", str(machine.port), f"root@{machine.host}"]
        done = subprocess.run([*login, "sh -s"], input=script, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout

    def each(self, script: str) -> list[str]:
        """The same on each, at once."""
        with ThreadPoolExecutor(len(self.given)) as pool:
            return list(pool.map(lambda index: self.shell(index, script), range(len(self.given))))


@contextmanager
def lent(name: str, nodes: int, computer: Computer, folder: Path) -> Iterator[Own]:
    """Machines that no cluster has reserved and no lease of their own ends; they go at the end."""
    pool = documents.pool_of(name, OWNER, {"nodes": nodes, "machine": MACHINE})
    found = empty = Own(name, computer, [], folder)
    try:
        found = Own(name, computer, json.loads(empty.run("machines.pool", "reserve", pool)), folder)
        found.each("systemctl disable -q --now runcrate-lease.timer; printf '192.0.2.9\tprinter' >> /etc/hosts")
        yield found
    finally:
        for process in found.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        empty.run("machines.pool", "release", pool)


def changes(before: list[str], after: list[str]) -> list[str]:
    """The lines that came and went, on all machines."""
    return [
        line
        for one, two in zip(before, after, strict=True)
        for line in difflib.unified_diff(one.splitlines(), two.splitlines(), n=0, lineterm="")
    ]
