"""The official download, asked for only where its site answers, so that a closed network costs seconds."""

from __future__ import annotations

import sys
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path

from runcrate_iac.engine.progress import watch
from runcrate_iac.engine.versions import COMMAND_PLUGIN, ENGINE
from runcrate_iac.model.progress import Report

_INSTALLER = "https://get.pulumi.com/install.sh"
_ANSWER_SECONDS = 6
_DOWNLOAD_SECONDS = 900
_PROGRAM = """
import sys, semver
from pulumi.automation import PulumiCommand
PulumiCommand.install(root=sys.argv[1], version=semver.VersionInfo.parse(sys.argv[2]))
"""


def reachable() -> bool:
    """Tell whether the official installer can be had, through the environment's proxies."""
    answers: list[bytes] = []

    def ask() -> None:
        with suppress(OSError), urllib.request.urlopen(_INSTALLER, timeout=_ANSWER_SECONDS) as answer:
            answers.append(answer.read(2))

    # in a thread, because no time limit holds for the look-up of a name
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ANSWER_SECONDS)
    return answers == [b"#!"]  # and not the page of a proxy that refuses


def download(root: Path, report: Report) -> bool:
    """Install the pinned CLI into ``root/bin``; False where it cannot be had.

    In a process of its own, because the Automation API's installer has no time limit.
    """
    argv = [sys.executable, "-c", _PROGRAM, str(root), ENGINE]
    return _succeeds(argv, f"downloading Pulumi {ENGINE}", report)


def fetch_command_plugin(pulumi: Path, report: Report) -> bool:
    """Let the engine fetch the real command plugin into the user's plugin cache; False where it cannot."""
    argv = [str(pulumi), "plugin", "install", "resource", "command", COMMAND_PLUGIN]
    return _succeeds(argv, f"downloading Pulumi's command plugin {COMMAND_PLUGIN}", report)


def _succeeds(argv: list[str], title: str, report: Report) -> bool:
    return watch(argv, title, report, seconds=_DOWNLOAD_SECONDS).code == 0
