"""The cluster's own key pair on this computer, with which the engine logs in to its machines."""

from __future__ import annotations

from pathlib import Path

from runcrate_iac.errors import Refused
from runcrate_iac.machines.identity import openssh
from runcrate_iac.paths import cluster_dir, private_dir


def cluster_key(name: str) -> Path:
    """The private key's path; the pair is made where it is missing (the public one ends in ``.pub``).

    Raises :class:`~runcrate_iac.errors.ToolMissing` where there is no ssh-keygen, :class:`Refused` where it fails.
    """
    path = private_dir(cluster_dir(name)) / "id_ed25519"
    if not path.exists():
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"runcrate-iac {name}", "-f", str(path)]
        done = openssh(*command)
        if done.returncode != 0:
            raise Refused(f"no key for {name}: {done.stderr.strip()}", "see what that means for this folder")
    return path
