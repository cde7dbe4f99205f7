"""The database's share of the head's memory, decided in a real shell on the node."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from runcrate_iac.render import render

ME = pwd.getpwuid(os.getuid()).pw_name
GIB = 1024 * 1024
"""In KiB, as /proc/meminfo counts."""


@pytest.mark.parametrize(
    ("memory", "container", "pool"),
    [
        (1 * GIB, False, 64),
        (2 * GIB, False, 64),
        (16 * GIB, False, 768),
        (64 * GIB, False, 3264),
        (2048 * GIB, False, 4096),
        (64 * GIB, True, 64),
    ],
)
def test_the_buffer_pool_is_a_share_of_the_memory(tmp_path: Path, memory: int, container: bool, pool: int) -> None:
    """A twentieth of it, 64 MiB to 4 GiB, and no more where the memory is shared; a second run changes nothing (C6)."""
    (tmp_path / "meminfo").write_text(f"MemTotal:       {memory} kB\nMemFree:        1 kB\n")
    detect = tmp_path / "systemd-detect-virt"
    detect.write_text(f"#!/bin/sh\nexit {int(not container)}\n")
    detect.chmod(0o755)
    path = tmp_path / "memory.cnf"
    text = render("slurm/buffer-pool.sh.j2", path=path).replace("/proc/meminfo", f"{tmp_path}/meminfo")
    text = text.replace(" root ", f" {ME} ") + f"if differs {path}; then echo restart; fi\n"
    text = f"{render('shell/lib.sh')}\nPATH={tmp_path}:$PATH\n{text}"
    for told in (f"{path}\nrestart\n", ""):
        done = subprocess.run(["sh", "-s"], input=text, capture_output=True, text=True, check=True)
        assert done.stdout == told
    assert path.read_text().splitlines()[1:] == ["[mariadbd]", f"innodb_buffer_pool_size={pool}M"]
