"""SSH servers on loopback, real logins and real shells: no root and no machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runcrate_iac.model.network import Machine, plan
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision import ssh
from runcrate_iac.provision.job import Job

SERVERS = Path(__file__).parent / "sshd.py"


class Loopback:
    """Servers on ports of 127.0.0.1, each a "machine"."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        """One user key logs in to all of them."""
        self.identity = folder / "id"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.identity], check=True)
        self._process = process

    def server(self, *, noise: str = "", authorized: bool = True, refusals: int = 0) -> Machine:
        """A machine that root can log in to, if ``authorized``, after some ``refusals``.

        Its shells print ``noise`` first (F29).
        """
        keys = self.identity.with_suffix(".pub").read_text() if authorized else ""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"authorized": keys, "noise": noise, "refusals": refusals}) + "\n")
        self._process.stdin.flush()
        return self.machine(**json.loads(self._process.stdout.readline()))

    def freeze(self) -> None:
        """From now on nothing answers here, while the kernel still takes packets, as for a machine that hangs."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """End all machines here, as without power: their connections are reset."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def machine(self, port: int, host_key: str | None = None) -> Machine:
        """What a provider would say of the machine behind ``port``."""
        return Machine(
            index=0,
            id=f"m{port}",
            host="127.0.0.1",
            port=port,
            host_key=host_key,
            identity_file=str(self.identity),
            endpoint=f"machine-{port}",
        )


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[Loopback]:
    """A place for SSH servers; they and their shells end with it."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(SERVERS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        yield Loopback(folder, process)
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def loopback(tmp_path: Path) -> Iterator[Loopback]:
    """A place for SSH servers that ends with the test."""
    with servers(tmp_path) as place:
        yield place


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Loopback]:
    """Another one, which the test may freeze or kill."""
    with servers(tmp_path / "doomed") as place:
        yield place


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    """Makes a job for machines, with the cluster's files in a folder of the test."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "state"))

    def make(machines: list[Machine], step: Step = Step.SOFTWARE, seconds: float = 60) -> Job:
        network = plan([machine.model_copy(update={"index": index}) for index, machine in enumerate(machines)])
        return Job(
            step=step,
            cluster_id="t-1",
            spec=ClusterSpec(name="t", nodes=len(machines)),
            plan=network,
            ssh_config=ssh.write("t", network),
            deadline=time.time() + seconds,
        )

    return make
