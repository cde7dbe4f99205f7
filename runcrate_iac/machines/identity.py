"""Private keys of the user's own that log in to machines: whether they can be used without asking for a passphrase."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from runcrate_iac.errors import SpecError, ToolMissing
from runcrate_iac.model.network import Machine, node_name


def refuse_unusable(machines: Iterable[Machine]) -> None:
    """Raise :class:`SpecError` where a machine's key is not there, or has a passphrase and is not in ssh-agent.

    Raises :class:`ToolMissing` where there is no OpenSSH.
    """
    seen: set[str] = set()
    for machine in machines:
        if machine.identity_file is None or machine.identity_file in seen:
            continue
        seen.add(machine.identity_file)
        path = Path(machine.identity_file).expanduser()
        where = f"{node_name(machine.index)}: identity_file: {path}"
        if not path.is_file():
            raise SpecError(f"{where}: there is no such file", "give the path of the private key that logs in")
        if is_locked(path) and fingerprint(path) not in _fingerprints("ssh-add", "-l"):
            raise SpecError(
                f"{where} has a passphrase, and your ssh-agent does not have that key",
                f"run `ssh-add {path}`, or name a key that has none",
            )


def is_locked(path: Path) -> bool:
    """Whether the private key has a passphrase."""
    done = openssh("ssh-keygen", "-y", "-P", "", "-f", str(path))
    return done.returncode != 0 and "incorrect passphrase" in done.stderr


def fingerprint(path: Path) -> str:
    """The ``SHA256:…`` of the key, as OpenSSH tells it, locked or not; empty where it can't."""
    return next(iter(_fingerprints("ssh-keygen", "-l", "-f", str(path))), "")


def _fingerprints(*command: str) -> list[str]:
    return [words[1] for line in openssh(*command).stdout.splitlines() if len(words := line.split()) > 1]


def openssh(*command: str) -> subprocess.CompletedProcess[str]:
    """How a program of OpenSSH ended, which asks nothing.

    Raises :class:`ToolMissing` where it is not there.
    """
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ToolMissing(f"missing on this computer: {command[0]}", "install OpenSSH's client") from None
