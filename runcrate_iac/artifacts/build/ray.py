"""Ray's wheels, and those of everything that it needs, for the nodes' Python."""

from __future__ import annotations

import sys
from pathlib import Path

from runcrate_iac.engine.progress import watch
from runcrate_iac.errors import Failed
from runcrate_iac.model.progress import Report
from runcrate_iac.model.ray import REQUIREMENT
from runcrate_iac.model.versions import NODE_PYTHON

_SECONDS = 3600
_PLATFORMS = ("manylinux_2_36_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""What the C library of the nodes can load (PEP 600); bookworm has 2.36."""


def download(into: Path, report: Report, requirement: str = REQUIREMENT) -> None:
    """Fetch the wheels of ``requirement`` for nodes, whatever Python and system this computer has.

    The index is the one that pip is set up for. Raises :class:`Failed` with pip's last lines.
    """
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
    command += ["--only-binary=:all:", f"--python-version={NODE_PYTHON}", "--implementation=cp"]
    command += [f"--platform={platform}" for platform in _PLATFORMS]
    command += ["--progress-bar=off", f"--dest={into}", requirement]
    title = f"fetching the wheels of {requirement}"
    ended = watch(command, title, report, seconds=_SECONDS, how_far=_shown)
    if ended.code:
        raise Failed(
            f"{title} failed:\n{ended.last_lines}",
            "check that pip reaches its index (`pip config list`), and that this Python has pip",
        )


def _shown(line: str) -> str:
    words = line.split()
    return words[1].rsplit("/", 1)[-1] if words[:1] == ["Downloading"] and len(words) > 1 else ""
