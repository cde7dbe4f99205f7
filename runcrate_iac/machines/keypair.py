"""The cluster's own key pair on this computer, with which the engine logs in to its machines."""

from __future__ import annotations

import subprocess
from pathlib import Path

from runcrate_iac.paths import cluster_dir, private_dir


def cluster_key(name: str) -> Path:
    """The private key's path; the pair is made where it is missing (the public one ends in ``.pub``)."""
    path = private_dir(cluster_dir(name)) / "id_ed25519"
    if not path.exists():
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"runcrate-iac {name}", "-f", str(path)]
        subprocess.run(command, check=True, capture_output=True)
    return path
