"""The process of a container machine: started in namespaces of its own, found by its mark, ended for certain."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from runcrate_iac.machines.local.process import NotStarted

END_SECONDS = 10.0
POLL = 0.02
_RUN = Path(__file__).parent / "run.sh"
_SYSTEMD = Path("/run/systemd/system")
"""There where systemd runs this computer (sd_booted(3))."""


def command(mark: str, image: Path, namespace: str) -> list[str]:
    """The command that runs the container, for its machine's folder; its end ends all that it started."""
    scope = ["systemd-run", "--scope", "--quiet", "--collect", f"--unit=runcrate-{mark}", "--slice=machine.slice"]
    return [
        *([*scope, "--property=Delegate=yes"] if _SYSTEMD.is_dir() else []),
        *("unshare", "--mount", "--propagation=slave", "--pid", "--mount-proc", "--fork", "--kill-child"),
        *("sh", str(_RUN), mark, str(image), namespace),
    ]


def start(words: list[str], folder: Path) -> None:
    """Run ``words`` in ``folder``, with the console in its log; it outlives this process.

    It writes down its own process id before anything else, so that no end of ours leaves one that nobody finds.
    """
    (folder / "pid").unlink(missing_ok=True)
    noting = ("sh", "-c", 'echo $$ > pid.new && mv pid.new pid && exec "$@"', "sh", *words)
    with (folder / "console.log").open("a") as console:
        command = ("setsid", "--fork", *noting)
        subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=console, stderr=console, check=True)
    until = time.monotonic() + END_SECONDS
    while not (folder / "pid").exists():
        if time.monotonic() > until:
            raise NotStarted("its process does not start")
        time.sleep(POLL / 10)


def running(mark: str, folder: Path) -> int | None:
    """The process id of the machine in ``folder``; None where it does not run, or another process has that id now."""
    with suppress(OSError, ValueError):
        pid = int((folder / "pid").read_text())
        if mark in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
            return pid
    return None


async def end(pid: int) -> bool:
    """End it and everything in it; whether that is done.

    The process is the leader of its group, and the first one of the container's PID namespace is in that group: the
    kernel ends all others with it, and keeps it until they are gone (pid_namespaces(7)).
    """
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    until = time.monotonic() + END_SECONDS
    while _alive(pid):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(POLL)
    return True


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def remove_cgroups(folder: Path) -> None:
    """Remove the cgroups of a machine that has ended; where systemd runs, it does that."""
    if not (folder / "cgroup").exists():
        return
    path = (folder / "cgroup").read_text().strip().lstrip("/")
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    for top in [Path(place) / path for place, kind in mounts if kind in ("cgroup", "cgroup2")]:
        for inner, _, _ in os.walk(top, topdown=False):
            Path(inner).rmdir()
