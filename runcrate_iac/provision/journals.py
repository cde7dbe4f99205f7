"""What nodes logged, fetched over SSH before they go: the last words of a join that failed (C8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runcrate_iac.paths import cluster_dir, private_dir, write_atomic

SECONDS = 10.0
"""How long a node has to hand over its log; one that doesn't answer is the usual case."""
LINES = 300
TAIL = 5
_JOURNAL = f"sudo -n journalctl -b -n {LINES} --no-pager -o short-iso || journalctl -b -n {LINES} --no-pager"


def fetch(cluster: str, nodes: Sequence[str]) -> None:
    """Fetch the end of the system log of these nodes, all at once, into the cluster's logs."""
    asyncio.run(_fetch(cluster, nodes))


def path(cluster: str, node: str) -> Path:
    """Where the log of a node is, if it was fetched."""
    return cluster_dir(cluster) / "logs" / f"{node}.journal.log"


def tail(cluster: str, node: str) -> str:
    """The last lines of the node's log, else of its console, and where the rest is; empty where there is neither."""
    logs = path(cluster, node).parent
    for what, file in (("log", path(cluster, node)), ("console", logs / f"{node}.console.log")):
        if file.exists() and (lines := file.read_text(errors="replace").split("\n")):
            last = [f"  {line.rstrip()}" for line in lines if line.strip()][-TAIL:]
            return "\n".join([f"{node}'s {what} ends with (all of it: {file}):", *last])
    return ""


async def _fetch(cluster: str, nodes: Sequence[str]) -> None:
    private_dir(path(cluster, "").parent)
    await asyncio.gather(*(_one(cluster, node) for node in nodes))


async def _one(cluster: str, node: str) -> None:
    options = ("-o", "ConnectTimeout=5", "-o", "BatchMode=yes")
    command = ("ssh", "-F", str(cluster_dir(cluster) / "ssh_config"), *options, node, _JOURNAL)
    pipe = asyncio.subprocess.PIPE
    ssh = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            said, _ = await ssh.communicate()
            if said:
                write_atomic(path(cluster, node), said.decode(errors="replace"))
    if ssh.returncode is None:
        ssh.kill()
        await ssh.wait()
