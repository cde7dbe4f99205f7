"""The cluster's own key pair on this computer, with which the engine logs in to its machines."""

from __future__ import annotations

import subprocess
from pathlib import Path

from runcrate_iac.errors import Refused, ToolMissing
from runcrate_iac.paths import cluster_dir, private_dir


def cluster_key(name: str) -> Path:
    """The private key's path; the pair is made where it is missing (the public one ends in ``.pub``).

    Raises :class:`ToolMissing` where there is no ssh-keygen, and :class:`Refused` where it can't write them.
    """
    path = private_dir(cluster_dir(name)) / "id_ed25519"
    if not path.exists():
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"runcrate-iac {name}", "-f", str(path)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise ToolMissing("missing on this computer: ssh-keygen", "install OpenSSH's client") from None
        except subprocess.CalledProcessError as error:
            raise Refused(f"no key for {name}: {error.stderr.strip()}", "see what that means for this folder") from None
    return path
