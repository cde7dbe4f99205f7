"""The fastest way this computer runs a machine, found by trial: /dev/kvm may exist and still not run a stock kernel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from runcrate_iac.machines.local.command import MACHINE
from runcrate_iac.machines.local.tools import QEMU, qemu_version
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import cache_dir, write_atomic

TRIAL_SECONDS = 30.0
POLL = 0.1
_RUNS = re.compile(rb"Kernel panic - not syncing: VFS|systemd\[1\]|login: ")
"""What a kernel says that has started fully: that it found no disk, where it was given none, or that init runs."""


def accelerator(boot: Sequence[str], report: Report) -> str:
    """``kvm``, ``hvf`` or ``tcg``; tried once per start of this computer and QEMU version.

    ``boot`` are QEMU arguments that start some stock kernel with its console on the serial port.
    """
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK)
    seen = {"started": int(psutil.boot_time()), "qemu": qemu_version(), "kvm": kvm}
    file = cache_dir() / "accelerator.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    if known.get("seen") == seen:
        return str(known["accelerator"])
    for candidate in [*(["kvm"] if kvm else []), *(["hvf"] if sys.platform == "darwin" else [])]:
        report(f"trying whether {candidate} starts a kernel here", None)
        if starts_a_kernel(candidate, boot):
            found = candidate
            break
    else:
        found = "tcg"
        report("this computer runs virtual machines without hardware support, about 9 times slower (tcg)", None)
    write_atomic(file, json.dumps({"seen": seen, "accelerator": found}))
    return found


def starts_a_kernel(name: str, boot: Sequence[str], seconds: float = TRIAL_SECONDS) -> bool:
    """Whether a kernel started by ``boot`` runs under this accelerator, said on its console within ``seconds``."""
    cpu = "max" if name == "tcg" else "host"
    deadline = time.monotonic() + seconds
    with tempfile.NamedTemporaryFile() as console:
        command = [
            *(QEMU, "-machine", MACHINE, "-accel", name, "-cpu", cpu, "-m", "512M", "-nodefaults", "-no-user-config"),
            *("-display", "none", "-serial", f"file:{console.name}", "-snapshot", *boot),
        ]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as trial:
            try:
                while time.monotonic() < deadline and trial.poll() is None:
                    if _RUNS.search(Path(console.name).read_bytes()):
                        return True
                    time.sleep(POLL)
            finally:
                trial.kill()
    return False
