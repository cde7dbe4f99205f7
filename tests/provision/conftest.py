"""SSH servers on loopback, in this process: real logins and real shells, no root and no machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE

import asyncssh
import pytest

from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision import ssh
from runcrate_iac.provision.job import Job


class Loopback:
    """SSH servers on ports of 127.0.0.1, each a "machine" whose shell is this computer's ``sh``."""

    def __init__(self, folder: Path) -> None:
        """One user key; every server has a host key of its own."""
        self.identity = folder / "id"
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(self.identity)
        self._authorized = asyncssh.import_authorized_keys(key.export_public_key().decode())
        self._servers: list[asyncssh.SSHAcceptor] = []
        self._shells: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def server(self, *, noise: str = "", authorized: bool = True) -> Machine:
        """A server that logs in as root without sudo; ``noise`` is what its shell prints first (F29)."""
        host_key = asyncssh.generate_private_key("ssh-ed25519")

        async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
            process.stdout.write(noise.encode())
            # A shell in a process group of its own, which ends when the servers do.
            child = await asyncio.create_subprocess_exec(
                "sh", "-c", process.command or "", stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
            self._shells.append(child.pid)
            await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
            process.exit(await child.wait())

        async def listen() -> int:
            keys = self._authorized if authorized else asyncssh.import_authorized_keys("")
            server = await asyncssh.listen(
                "127.0.0.1",
                0,
                server_host_keys=[host_key],
                authorized_client_keys=keys,
                process_factory=serve,
                encoding=None,
            )
            self._servers.append(server)
            return int(server.get_port())

        port = asyncio.run_coroutine_threadsafe(listen(), self._loop).result(5)
        public = " ".join(host_key.export_public_key().decode().split()[:2])
        return self.machine(port, public)

    def machine(self, port: int, host_key: str | None = None) -> Machine:
        """What a provider would say of the machine behind ``port``."""
        return Machine(
            index=0,
            id=f"m{port}",
            host="127.0.0.1",
            port=port,
            user="root",
            host_key=host_key,
            identity_file=str(self.identity),
            endpoint=f"machine-{port}",
        )

    def close(self) -> None:
        """End all servers and what they started."""
        for pid in self._shells:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=1)
            for task in tasks:
                task.cancel()


@pytest.fixture
def loopback(tmp_path: Path) -> Iterator[Loopback]:
    """A place for SSH servers."""
    loopback = Loopback(tmp_path)
    yield loopback
    loopback.close()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    """Makes a job for machines, with the cluster's files in a folder of the test."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "state"))

    def make(machines: list[Machine], step: Step = Step.JOIN, seconds: float = 20) -> Job:
        network: NetworkPlan = plan([m.model_copy(update={"index": i}) for i, m in enumerate(machines)])
        config = ssh.write("t", network)
        spec = ClusterSpec(name="t", nodes=len(machines))
        return Job(
            step=step, cluster_id="t-1", spec=spec, plan=network, ssh_config=config, deadline=time.time() + seconds
        )

    return make
