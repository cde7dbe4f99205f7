"""Running mmdebstrap, which unpacks a distribution's packages into a folder, as root or in a user namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.local import tools
from runcrate_iac.model.progress import Report

LIMIT = 1800.0
"""Seconds that a build may take."""
TELL_EVERY = 3.0
LOG = "build.log"
"""The log's name in the folder of what is built."""


def command(
    suite: str,
    packages: Iterable[str],
    *,
    essential_hooks: Iterable[str] = (),
    customize_hooks: Iterable[str] = (),
    tree: Path | None = None,
) -> list[str]:
    """The call; hooks are shell lines that get the folder as ``$1``, or ``upload`` and ``download`` (mmdebstrap(1)).

    ``tree`` is the folder that keeps the unpacked packages; without it only what hooks carry out is kept.
    """
    hooks = [f"--essential-hook={line}" for line in essential_hooks]
    hooks += [f"--customize-hook={line}" for line in customize_hooks]
    include = ",".join(packages)
    kept = ["--format=directory"] if tree else ["--format=null"]
    target = [suite, str(tree)] if tree else [suite]
    return ["mmdebstrap", mode(), "--variant=apt", *kept, f"--include={include}", *hooks, *target]


def mode() -> str:
    """The option that says how packages are unpacked: as root, or in a user namespace."""
    return "--mode=root" if os.geteuid() == 0 else "--mode=unshare"


def run(words: list[str], folder: Path, what: str, report: Report) -> None:
    """Run ``words``, telling every few seconds what it does; its log stays in ``folder``.

    Raises :class:`StepFailed` with the end of the log.
    """
    report(f"{what}: building it once from distribution packages", None)
    log = folder / LOG
    environment = {**os.environ, "PATH": tools.search_path(), "LC_ALL": "C.UTF-8"}
    if os.geteuid() == 0:
        environment["TMPDIR"] = str(folder)
    begun = time.monotonic()
    with log.open("w") as output:
        build = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    try:
        while build.poll() is None:
            if time.monotonic() - begun > LIMIT:
                raise StepFailed(f"{what}: not built after {LIMIT:.0f} s", "look at the speed of the package mirror")
            _pause(build)
            report(f"{what}: {_stage(log)} ({time.monotonic() - begun:.0f} s)", None)
    finally:
        if build.poll() is None:
            os.killpg(build.pid, signal.SIGTERM)
            build.wait(60)
    if build.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise StepFailed(
            f"{what}: mmdebstrap ended with {build.returncode}:\n{tail}",
            "see whether this computer reaches its Debian mirror (http_proxy is honoured), then try again",
        )


def _pause(build: subprocess.Popen[bytes]) -> None:
    try:
        build.wait(TELL_EVERY)
    except subprocess.TimeoutExpired:
        return


def _stage(log: Path) -> str:
    """What mmdebstrap says it does now: its own lines begin with ``I: ``."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("I: ")]
    if not lines:
        return "starting"
    return "making the disk" if "hook" in lines[-1] else lines[-1][3:]
