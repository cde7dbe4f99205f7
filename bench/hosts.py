"""Container machines for a bench: made, looked at, put back by hand, and gone at the end, after a kill too.

They are in a state folder of the bench's own, where they belong to no cluster: what a killed run left is released by
the next one, and by ``RUNCRATE_IAC_HOME=<that folder> runcrate-iac gc --release``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from runcrate_iac.machines import fleet
from runcrate_iac.machines.keypair import cluster_key
from runcrate_iac.machines.local import LocalProvider
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine
from runcrate_iac.model.spec import Kind, MachineSpec
from runcrate_iac.paths import cache_dir, machines_dir

HOME = cache_dir() / "bench"
_MARK = "bench-join"
_SECONDS = 3600.0
"""After this long the machines power themselves off, unless a join has disarmed their lease."""
_SAVE = (
    "mkdir /var/tmp/before && cp -a --parents /etc/hosts /etc/hostname /etc/nftables.conf /root/.ssh /var/tmp/before"
)
_PUT_BACK = """
systemctl disable --quiet --now runcrate-mesh runcrate-wireguard-go runcrate-firewall wg-quick@wg0 nftables 2> /dev/null
cd /etc && rm -rf wireguard runcrate ssh/ssh_known_hosts ssh/ssh_config.d/*r.conf ssh/ssh_config.d/runcrate.conf \
  systemd/system/runcrate-mesh.service systemd/system/runcrate-firewall.service \
  systemd/system/runcrate-wireguard-go.service /usr/local/lib/runcrate /root/.ssh /root/.ansible
cd /var/tmp/before && cp -a root/.ssh /root/ && cat etc/hosts > /etc/hosts && cp -a etc/nftables.conf etc/hostname /etc
systemctl daemon-reload
nft flush ruleset
! ls -d /sys/class/net/wg*
"""
_LINGERS = 12.0
"""Seconds: a user's service manager goes 10 s after the last login (logind.conf(5), ``UserStopDelaySec``). A contender
that finds it running, since somebody logged in just before, is spared its start."""
_SAMPLE = 0.1
_BUSY = 0.3
"""CPU seconds per second of all machines below which they are at rest."""


@contextmanager
def machines(many: int) -> Iterator[Sequence[Machine]]:
    """So many machines, booted; log in as root. They are released at the end, and by SIGTERM."""
    os.environ["RUNCRATE_IAC_HOME"] = str(HOME)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    provider, key = LocalProvider(), cluster_key(_MARK)
    request = Reservation(
        cluster_id=_MARK,
        nodes=many,
        machine=MachineSpec(kind=Kind.CONTAINER),
        authorized_keys=(key.with_suffix(".pub").read_text().strip(),),
        identity_file=key,
        deadline=time.time() + _SECONDS,
    )
    try:
        _release(provider)
        provider.prepare(request.machine, None, _quiet)
        booted = asyncio.run(fleet.bring_up(request, provider, _SECONDS, lambda machine: None, _quiet))  # noqa: ARG005
        made = [machine.model_copy(update={"user": "root"}) for machine in booted]
        everywhere(made, _SAVE)
        yield made
    finally:
        _release(provider)
        shutil.rmtree(HOME, ignore_errors=True)


def everywhere(made: Sequence[Machine], script: str) -> None:
    """Run a script on all of them at once; all must succeed."""

    def one(machine: Machine) -> None:
        options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        words = [word for option in options for word in ("-o", option)]
        login = ["ssh", *words, "-i", str(machine.identity_file), f"root@{machine.host}", "sh -s"]
        done = subprocess.run(login, input=script, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{machine.id}: {done.stdout}{done.stderr}")

    with ThreadPoolExecutor(len(made)) as pool:
        list(pool.map(one, made))


def put_back(made: Sequence[Machine]) -> None:
    """Undo what Ansible or the floor did."""
    everywhere(made, _PUT_BACK)


def cpu(made: Sequence[Machine]) -> float:
    """CPU seconds that the machines have used: user space, and the kernel for them."""
    return sum(_cpu(machine) for machine in made)


class Sampled:
    """The CPU of machines while something runs."""

    def __init__(self, made: Sequence[Machine]) -> None:
        """Nothing is measured yet."""
        self._made, self._end = made, threading.Event()
        self._samples: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        """Begin."""
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End."""
        self._end.set()
        self._thread.join()
        self._sample()

    @property
    def begun(self) -> float:
        """When, in seconds since the epoch."""
        return self._samples[0][0]

    @property
    def ended(self) -> float:
        """When, in seconds since the epoch."""
        return self._samples[-1][0]

    def used(self, begin: float, end: float) -> float:
        """CPU seconds between two moments."""
        return self._until(end) - self._until(begin)

    def _until(self, moment: float) -> float:
        return min(self._samples, key=lambda sample: abs(sample[0] - moment))[1]

    def _look(self) -> None:
        while not self._end.wait(_SAMPLE):
            self._sample()

    def _sample(self) -> None:
        self._samples.append((time.time(), cpu(self._made)))


def rest(made: Sequence[Machine]) -> None:
    """Wait until the machines have nothing to do, a minute at most, and nothing is left of a login before."""
    time.sleep(_LINGERS)
    for _ in range(60):
        before = cpu(made)
        time.sleep(1)
        if cpu(made) - before < _BUSY:
            return


def _cpu(machine: Machine) -> float:
    folder = machines_dir(_MARK) / f"node-{machine.index}"
    if (folder / "cgroup").exists():
        path = (folder / "cgroup").read_text()
    else:  # where systemd runs this computer, the process is in a scope of the machine's own
        path = Path(f"/proc/{(folder / 'pid').read_text().strip()}/cgroup").read_text().rpartition("0::")[2]
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    top = next(Path(place) for place, kind in mounts if kind == "cgroup2")
    usage = (top / path.strip().lstrip("/") / "cpu.stat").read_text().split()
    return int(usage[usage.index("usage_usec") + 1]) / 1e6


def _release(provider: LocalProvider) -> None:
    _, left = asyncio.run(fleet.release(_MARK, provider, _quiet))
    if left:
        raise SystemExit(f"not released: {left}")


def _quiet(message: str, node: str | None) -> None:
    """No news."""
