"""Measuring the network between nodes, with iperf3 on two of them at a time, over the cluster's ssh_config (C16).

Nothing stays: a server takes one client and ends after :data:`SECONDS` at the latest. On the physical network the
server's firewall lets in that one peer's address, at that one port, for :data:`OPEN` seconds, which its kernel counts.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from runcrate_iac.model.bandwidth import Pair, Round, Speed, bus_gbit_per_second, gbit_per_second
from runcrate_iac.model.network import NetworkPlan, Node
from runcrate_iac.render import render

MEASURED = 3
"""Seconds that a measurement counts."""
SECONDS = 30
"""Within which a measurement ends, its logins included."""
OPEN = 15
"""Seconds for the client's connections to be made; those that are made go on."""
NCCL_SECONDS = 300
"""For NCCL's all-reduce over all GPUs."""
_PORTS = range(20_000, 30_000)
"""Below the ports that Linux gives to connections by itself."""
_NO_SESSION = 255
"""ssh's exit code where it is not the command that failed (ssh(1))."""


class NotMeasured(Exception):
    """Why there is no figure."""


class NoLogin(NotMeasured):
    """The node can't be logged in to: nothing else of it can be measured."""

    def __init__(self, node: Node, why: str) -> None:
        """``why`` is what ssh said."""
        super().__init__(f"{node.name}: no SSH login: {why}")
        self.node = node


def longest(rounds: Sequence[Round]) -> float:
    """Seconds after which all rounds are over, whatever happens."""
    return len(rounds) * 4.0 * (SECONDS + 5)


class Bandwidth:
    """The measurements of one run."""

    def __init__(self, plan: NetworkPlan, config: Path, tell: Callable[[str], None]) -> None:
        """``config`` is the cluster's ssh_config; ``tell`` hears of each speed."""
        self._plan, self._config, self._tell = plan, config, tell
        self._lost: dict[str, str] = {}

    def measure(self, rounds: Sequence[Round]) -> list[Speed]:
        """Both directions of every pair, round by round; the pairs of a round at the same time."""
        until = time.monotonic() + longest(rounds)
        speeds: list[Speed] = []
        for number, pairs in enumerate(rounds, 1):
            names = ", ".join(f"{one.name} and {other.name}" for one, other in pairs)
            self._tell(f"round {number} of {len(rounds)}: {names}")
            with ThreadPoolExecutor(len(pairs)) as pool:
                for both in pool.map(lambda pair: self._pair(pair, until), pairs):
                    speeds += both
        return speeds

    def _pair(self, pair: Pair, until: float) -> list[Speed]:
        one, other = pair
        return [self._direction(one, other, until), self._direction(other, one, until)]

    def _direction(self, source: Node, target: Node, until: float) -> Speed:
        figures: dict[bool, float] = {}
        reasons = []
        for physical in (False, True):
            try:
                figures[physical] = self._figure(source, target, until, physical=physical)
            except NotMeasured as reason:
                reasons.append(str(reason))
                if isinstance(reason, NoLogin):
                    self._lost[reason.node.name] = str(reason)
        return Speed(
            source=source.name,
            target=target.name,
            private=figures.get(False),
            physical=figures.get(True),
            reasons=tuple(dict.fromkeys(reasons)),
        )

    def _figure(self, source: Node, target: Node, until: float, *, physical: bool) -> float:
        for node in (source, target):
            if node.name in self._lost:
                raise NotMeasured(self._lost[node.name])
        if time.monotonic() > until:
            raise NotMeasured("out of time")
        port = random.choice(_PORTS)  # noqa: S311 - no secret
        address = target.endpoint.rpartition(":")[0].strip("[]") if physical else target.address
        sudo = "" if target.machine.user == "root" else "sudo -n"
        values = {"node": target, "client": source, "interface": self._plan.interface, "physical": physical}
        server = render("bandwidth/server.sh.j2", port=port, sudo=sudo, seconds=SECONDS, open_seconds=OPEN, **values)
        client = render("bandwidth/client.sh.j2", address=address, port=port, seconds=SECONDS, measured=MEASURED)
        with self._serving(target, server):
            said = self._ask(source, client)
        try:
            return gbit_per_second(said)
        except ValueError as error:
            where = f"physical network, {target.name} at {address}" if physical else f"{target.name} at {address}"
            raise NotMeasured(f"{source.name} -> {where}: {error}") from None

    @contextmanager
    def _serving(self, node: Node, script: str) -> Iterator[None]:
        """While a server on ``node`` waits for its client."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            self._ssh(node), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            late = threading.Timer(SECONDS + 5, process.kill)
            late.start()
            try:
                self._until_it_listens(node, process, script)
                yield
                process.wait(5)
            except subprocess.TimeoutExpired:
                pass  # on the node it ends by itself
            finally:
                late.cancel()
                process.kill()

    @staticmethod
    def _until_it_listens(node: Node, process: subprocess.Popen[str], script: str) -> None:
        stdin, stdout = process.stdin, process.stdout
        if stdin is None or stdout is None:
            msg = "ssh was started without pipes"
            raise RuntimeError(msg)
        with suppress(BrokenPipeError):  # what it says tells why
            stdin.write(script)
            stdin.close()
        last = "it said nothing"
        for line in stdout:
            if line.startswith("Server listening"):
                return
            last = line.strip() or last
        if process.wait() == _NO_SESSION:
            raise NoLogin(node, last)
        raise NotMeasured(f"{node.name}: {last}")

    def _ask(self, node: Node, script: str, seconds: float = SECONDS) -> str:
        try:
            done = subprocess.run(
                self._ssh(node),
                input=script,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds + 5,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"{node.name}: no result after {seconds:.0f} s") from None
        if done.returncode == _NO_SESSION:
            raise NoLogin(node, next(iter(done.stderr.strip().splitlines()[-1:]), "it said nothing"))
        return done.stdout

    def all_reduce(self, gpus: int, hostfile: str) -> float:
        """NCCL's bus bandwidth between all GPUs, in Gbit/s, with the nccl-tests that the head has.

        Raises :class:`NotMeasured` with the reason.
        """
        nodes = len(self._plan.nodes)
        values = {"nodes": nodes, "gpus": gpus, "hostfile": hostfile, "seconds": NCCL_SECONDS}
        self._tell(f"NCCL's all-reduce over {nodes * gpus} GPUs, for {NCCL_SECONDS} s at most")
        said = self._ask(self._plan.head, render("bandwidth/nccl.sh.j2", **values), NCCL_SECONDS)
        try:
            return bus_gbit_per_second(said, nodes * gpus)
        except ValueError as error:
            raise NotMeasured(str(error)) from None

    def _ssh(self, node: Node) -> list[str]:
        options = ["BatchMode=yes", "ConnectTimeout=15", "ConnectionAttempts=1"]
        return ["ssh", "-F", str(self._config), *(word for one in options for word in ("-o", one)), node.name, "sh -s"]
