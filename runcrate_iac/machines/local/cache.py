"""Folders that are made once, by one process, then only read, and removed when nothing has needed them for a month."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from runcrate_iac.model.progress import Report
from runcrate_iac.paths import private_dir

PAUSE = 0.2
TELL_EVERY = 5.0
UNUSED_SECONDS = 30 * 24 * 3600.0
USERS = "users"
"""Links to the folders that need this one; its time is that of the last use. Folders of older versions lack it."""


def made_once(folder: Path, make: Callable[[Path], None], what: str, report: Report) -> Path:
    """``folder``, filled by ``make(temporary folder)`` if it does not exist; whole or not at all.

    A second process waits for the first. What a killed process left half made is removed, and so are folders beside
    it that nothing has used for 30 days and no folder needs any more: see :func:`needed_by`.
    """
    private_dir(folder.parent)
    with _lock(folder).open("w") as lock, _locked(lock, what, report):
        made = not folder.exists()
        if made:
            _make(folder, make)
        elif (folder / USERS).is_dir():
            os.utime(folder / USERS)
    if made:
        _remove_unused(folder.parent, what, report)
    return folder


def needed_by(folder: Path, user: Path) -> None:
    """Note that ``user``, a folder such as a machine's, needs this one for as long as it exists itself."""
    users = folder / USERS
    if not users.is_dir():
        return
    for link in users.iterdir():
        if not link.exists():
            link.unlink(missing_ok=True)
    link = users / hashlib.sha256(str(user).encode()).hexdigest()[:16]
    with suppress(FileExistsError):
        link.symlink_to(user.absolute())


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    part = folder.parent / f".{folder.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    try:
        make(part)
        (part / USERS).mkdir(mode=0o700)
        for file in part.iterdir():
            _to_disk(file)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove_unused(place: Path, what: str, report: Report) -> None:
    for folder in place.glob("[!.]*"):
        users = folder / USERS
        with _lock(folder).open("w") as lock, suppress(OSError):  # locked by its maker, of an older version, not ours
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unused = time.time() - users.stat().st_mtime
            if unused > UNUSED_SECONDS and not any(link.exists() for link in users.iterdir()):
                folder.rename(place / f".{folder.name}.gone")
                report(f"{what}: removing {folder}, which nothing has used for {unused / 86400:.0f} days", None)
    for gone in place.glob(".*.gone"):
        shutil.rmtree(gone, ignore_errors=True)


def _lock(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.lock"


def _to_disk(file: Path) -> None:
    """Else a power failure after the rename could leave a folder that looks whole and is not."""
    if file.is_file():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())


@contextmanager
def _locked(lock: IO[str], what: str, report: Report) -> Iterator[None]:
    begun = told = time.monotonic()
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
            if time.monotonic() - told > TELL_EVERY:
                told = time.monotonic()
                report(f"{what}: another process is making it ({told - begun:.0f} s)", None)
        else:
            break
    yield
