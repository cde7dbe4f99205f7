"""The official download, asked for only where its site answers, so that a closed network costs seconds."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from pathlib import Path

from runcrate_iac.engine.progress import watch
from runcrate_iac.engine.versions import COMMAND_PLUGIN, ENGINE
from runcrate_iac.model.progress import Report

SITE = "https://get.pulumi.com/"
_ANSWER_SECONDS = 5
_DOWNLOAD_SECONDS = 900
_PROGRAM = """
import sys, semver
from pulumi.automation import PulumiCommand
PulumiCommand.install(root=sys.argv[1], version=semver.VersionInfo.parse(sys.argv[2]))
"""


def reachable() -> bool:
    """Tell whether the site of the official downloads answers, through the environment's proxies."""
    request = urllib.request.Request(SITE, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS):  # noqa: S310
            return True
    except urllib.error.HTTPError as answer:
        return answer.code not in {403, 407, 451}  # what filtering proxies answer
    except OSError:
        return False


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
