"""The root file system of container machines: a folder of distribution packages without a kernel, built once."""

from __future__ import annotations

import os
from pathlib import Path

from runcrate_iac.machines.local import image, mmdebstrap, tools
from runcrate_iac.machines.local.cache import made_once
from runcrate_iac.model.progress import Report
from runcrate_iac.paths import cache_dir

WHAT = "container image"
_MORE = ("wireguard-go",)
"""The user-space WireGuard, for computers whose kernel has none: a container can't bring a module."""
_SCRIPTS = (image.GUEST / "configure.sh", image.GUEST / "configure-container.sh")


def packages() -> list[str]:
    """The packages in it."""
    return image.packages(_MORE)


def key() -> str:
    """Its name in the cache."""
    return "tree-" + image.digest(_SCRIPTS, image.SUITE, packages())


def root_tree(report: Report) -> Path:
    """The folder, built where the cache lacks it: less than a minute, 1.3 GB.

    Raises :class:`~runcrate_iac.errors.ToolMissing`, or :class:`~runcrate_iac.errors.StepFailed` with the end
    of the build's log.
    """
    folder = cache_dir() / "images" / key()
    if not folder.exists():
        tools.require(("mmdebstrap",))
    made_once(folder, lambda part: _build(part, report), WHAT, report)
    return folder / "root"


def _build(part: Path, report: Report) -> None:
    hooks = image.configuring(_SCRIPTS)
    words = mmdebstrap.command(image.SUITE, packages(), customize_hooks=hooks, tree=part / "root")
    mmdebstrap.run(words, part, WHAT, report)
    os.sync()
