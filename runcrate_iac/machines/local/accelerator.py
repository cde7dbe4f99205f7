"""The fastest way this computer runs a machine, found by trial: /dev/kvm may exist and still not run a stock kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

from runcrate_iac.machines.local.image import Image
from runcrate_iac.machines.local.tools import QEMU, qemu_version
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import cache_dir, write_atomic

TRIAL_SECONDS = 20.0
STARTED = b"Kernel panic - not syncing: VFS"
"""The last words of a kernel that started fully and found no disk, which the trial does not give it."""


def accelerator(image: Image, report: Report) -> str:
    """``kvm``, ``hvf`` or ``tcg``; tried once per start of this computer and QEMU version."""
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK)
    seen = {"started": int(psutil.boot_time()), "qemu": qemu_version(), "kvm": kvm}
    file = cache_dir() / "accelerator.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    if known.get("seen") == seen:
        return str(known["accelerator"])
    candidates = [*(["kvm"] if kvm else []), *(["hvf"] if sys.platform == "darwin" else [])]
    for candidate in candidates:
        report(f"trying whether {candidate} starts a kernel here", None)
        if starts_a_kernel(candidate, image.kernel):
            found = candidate
            break
    else:
        found = "tcg"
        report("this computer runs virtual machines without hardware support: about 9 times slower (tcg)", None)
    write_atomic(file, json.dumps({"seen": seen, "accelerator": found}))
    return found


def starts_a_kernel(name: str, kernel: Path) -> bool:
    """Whether ``kernel`` runs to its search for a root file system under this accelerator."""
    cpu = "max" if name == "tcg" else "host"
    command = [
        *(QEMU, "-machine", "pc", "-accel", name, "-cpu", cpu, "-m", "256M", "-nodefaults", "-no-user-config"),
        *(
            "-display",
            "none",
            "-serial",
            "stdio",
            "-no-reboot",
            "-kernel",
            str(kernel),
            "-append",
            "console=ttyS0 panic=-1",
        ),
    ]
    try:
        trial = subprocess.run(
            command, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=TRIAL_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return trial.returncode == 0 and STARTED in trial.stdout
