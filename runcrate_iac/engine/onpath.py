"""A Pulumi that the user has installed, looked at: whether it is new enough and has its two plugins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from runcrate_iac import paths
from runcrate_iac.engine import launchers
from runcrate_iac.engine.versions import OLDEST_ENGINE
from runcrate_iac.model.base import Model


class Installed(Model):
    """The ``pulumi`` on PATH."""

    executable: Path
    version: str


def look(ours: Path) -> Installed | None:
    """The ``pulumi`` on PATH if it is new enough and has its Python host; those in the folder ``ours`` do not count."""
    found = shutil.which("pulumi")
    if not found or Path(found).resolve().is_relative_to(ours) or Path(found).is_relative_to(ours):
        return None
    executable = Path(found)
    version = _version(executable)
    if version is None or not OLDEST_ENGINE <= _numbers(version) < (4,):
        return None
    beside = executable.resolve().parent / launchers.LANGUAGE
    if not (beside.is_file() or _real_on_path(launchers.LANGUAGE)):
        return None
    return Installed(executable=executable, version=version)


def has_command_plugin() -> bool:
    """Tell whether the real command plugin is on PATH or in Pulumi's plugin cache."""
    home = Path(os.environ.get("PULUMI_HOME") or paths.home() / ".pulumi")
    fetched = home.glob(f"plugins/resource-command-v1.*/{launchers.COMMAND}")
    return _real_on_path(launchers.COMMAND) or any(fetched)


def _version(executable: Path) -> str | None:
    try:
        text = subprocess.run(
            [executable, "version"],
            env=os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.fullmatch(r"v?(\d+\.\d+\.\d+)\S*", text.strip())
    return match[1] if match else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _real_on_path(name: str) -> bool:
    found = shutil.which(name)
    return found is not None and not launchers.is_standin(Path(found))
