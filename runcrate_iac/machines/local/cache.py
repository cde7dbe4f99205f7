"""Folders that are made once, by one process, and then only read."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from runcrate_iac.model.progress import Report
from runcrate_iac.paths import private_dir

PAUSE = 0.2
TELL_EVERY = 5.0


def made_once(folder: Path, make: Callable[[Path], None], what: str, report: Report) -> Path:
    """``folder``, filled by ``make(temporary folder)`` if it does not exist; whole or not at all.

    A second process waits for the first. What a killed process left half made is removed.
    """
    if folder.exists():
        return folder
    private_dir(folder.parent)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock, _locked(lock, what, report):
        if folder.exists():
            return folder
        part = folder.parent / f".{folder.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        try:
            make(part)
            for file in part.iterdir():
                _to_disk(file)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


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
