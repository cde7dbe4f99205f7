"""Where things are: state and caches of the user, and the files that ship with the package."""

from __future__ import annotations

import os
from pathlib import Path

from runcrate_iac.errors import SpecError

PACKAGE = Path(__file__).parent


def state_dir() -> Path:
    """The folder of all durable state: ``$RUNCRATE_IAC_HOME``, or the XDG state folder."""
    if home := os.environ.get("RUNCRATE_IAC_HOME"):
        return Path(home).absolute()
    return _xdg("XDG_STATE_HOME", ".local/state") / "runcrate-iac"


def cache_dir() -> Path:
    """The folder of what can be made again (engine, images): the XDG cache folder."""
    return _xdg("XDG_CACHE_HOME", ".cache") / "runcrate-iac"


def _xdg(variable: str, default: str) -> Path:
    """One of the user's base folders; a relative one counts as not given (XDG Base Directory Specification)."""
    base = Path(os.environ.get(variable, ""))
    return base if base.is_absolute() else home() / default


def home() -> Path:
    """The user's home folder.

    Raises :class:`SpecError` where the user has none.
    """
    try:
        return Path.home()
    except RuntimeError:  # a container that runs as a number that its /etc/passwd does not know
        raise SpecError(f"user {os.getuid()} has no home folder", "set HOME") from None


def cluster_dir(name: str) -> Path:
    """The folder of one cluster's files: ssh_config, known_hosts, its key, its progress and logs."""
    return state_dir() / "clusters" / name


def machines_dir(cluster_id: str) -> Path:
    """The folder of one cluster's local machines: disks, sockets, console logs."""
    return state_dir() / "machines" / cluster_id


def bundled(name: str) -> Path:
    """``deploys``, ``templates`` or ``stacks``, whether this is a checkout or an installed wheel."""
    wheel = PACKAGE / "_bundled" / name
    return wheel if wheel.is_dir() else PACKAGE.parent / name


def private_dir(path: Path) -> Path:
    """``path`` as a folder that only this user can enter, made if missing."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def write_atomic(path: Path, text: str, mode: int = 0o600) -> None:
    """Write ``text`` so that a reader, or a crash, sees the old file or the new one, never half of one."""
    private_dir(path.parent)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
