"""What makes a container machine one of its own: files on its disk, written before it starts."""

from __future__ import annotations

import os
import subprocess
import uuid
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from runcrate_iac.machines import lease
from runcrate_iac.machines.local import records
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import node_name

_LEASE = lease.DEADLINE_FILE.lstrip("/")
_HOST_KEY = "etc/ssh/ssh_host_ed25519_key"


def give(upper: Path, lower: Path, index: int, request: Reservation) -> str:
    """Write the identity of node ``index`` into ``upper``, its own layer over the image ``lower``.

    Returns its SSH host key as ``type base64``: it is known, not trusted at first contact.
    """
    name = node_name(index)
    keys = "".join(f"{key}\n" for key in request.authorized_keys)
    for path, text in {
        "etc/hostname": f"{name}\n",
        "etc/machine-id": f"{uuid.uuid4().hex}\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost ip6-localhost ip6-loopback\n",
    }.items():
        _write(upper, lower, path, text)
    for home in ("root", f"home/{records.LOGIN}"):
        _write(upper, lower, f"{home}/.ssh/authorized_keys", keys, private=True)
    key = _folder(upper, lower, Path(_HOST_KEY).parent) / Path(_HOST_KEY).name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def has_lease(upper: Path) -> bool:
    """Whether the machine's lease was not ended yet."""
    return (upper / _LEASE).exists()


def give_lease(upper: Path, lower: Path, request: Reservation) -> None:
    """Write the deadline at which it powers itself off."""
    _write(upper, lower, _LEASE, f"{request.deadline:.0f}\n")


def give_address(upper: Path, lower: Path, address: IPv4Address, subnet: IPv4Network) -> None:
    """Write its address, which another network may change when it starts again."""
    unit = f"[Match]\nName=host0\n\n[Network]\nAddress={address}/{subnet.prefixlen}\n"
    _write(upper, lower, "etc/systemd/network/20-lan.network", f"{unit}LinkLocalAddressing=no\nIPv6AcceptRA=no\n")


def _write(upper: Path, lower: Path, path: str, text: str, *, private: bool = False) -> None:
    folder = _folder(upper, lower, Path(path).parent)
    file = folder / Path(path).name
    file.write_text(text)
    file.chmod(0o600 if private else 0o644)
    if private:
        folder.chmod(0o700)
    owner = folder.stat()
    os.chown(file, owner.st_uid, owner.st_gid)


def _folder(upper: Path, lower: Path, path: Path) -> Path:
    """The folder in the layer; it hides the image's one, so it has its mode and owner, or else its parent's owner."""
    folder = upper / path
    if folder.exists():
        return folder
    parent = _folder(upper, lower, path.parent).stat()
    like = (lower / path).stat() if (lower / path).exists() else None
    folder.mkdir()
    folder.chmod((like.st_mode & 0o7777) if like else 0o755)
    os.chown(folder, (like or parent).st_uid, (like or parent).st_gid)
    return folder
