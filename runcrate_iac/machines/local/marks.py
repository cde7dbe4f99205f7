"""Which clusters the machines on this computer belong to, by what is there: folders and processes, no record."""

from __future__ import annotations

import psutil

from runcrate_iac.machines.local import process
from runcrate_iac.machines.local.command import option_value
from runcrate_iac.paths import machines_dir, state_dir

_NODE = ".node-"


def marks() -> list[str]:
    """The id of every cluster that has a machine's folder here, or a process whose files are in this state folder."""
    folders = {place.parent.name for place in (state_dir() / "machines").glob("*/node-*")}
    running = {mark.rpartition(_NODE)[0] for mark, found in process.running("").items() if _ours(mark, found)}
    return sorted(folders | running)


def _ours(mark: str, found: psutil.Process) -> bool:
    """Whether it is a node's, and of this state folder: another one's machines are not ours to judge."""
    cluster_id, is_node, _ = mark.rpartition(_NODE)
    try:
        words = found.cmdline()
    except psutil.Error:  # it has just ended
        return False
    return bool(is_node) and any(f"path={option_value(machines_dir(cluster_id))}/" in word for word in words)
