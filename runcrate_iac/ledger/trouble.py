"""What it means when a file of the state folder can't be read or written."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runcrate_iac.errors import Refused, StateDamaged, StateUnwritable
from runcrate_iac.paths import state_dir

SALVAGE = "runcrate-iac gc: it keeps the damaged file, saves what can be read, and finds machines by their mark"
MAKE_ROOM = "make room there, then run the same again"
MAKE_WRITABLE = "make it writable, or name another state folder in RUNCRATE_IAC_HOME"

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""SQLITE_ERROR from statements that are right means that their table is missing."""
_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
}
_UNREADABLE = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}
_OF_DISKS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


@contextmanager
def explaining(ledger: Path) -> Iterator[None]:
    """Raise what SQLite says of this file as :class:`StateDamaged`, :class:`StateUnwritable` or :class:`Refused`."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, ledger) from error
    except UnicodeDecodeError as error:  # how the driver reports text, even an error's, that is none
        raise StateDamaged(f"the ledger {ledger} is damaged: {error}", SALVAGE) from error
    except OSError as error:
        raise StateUnwritable(f"the ledger {ledger} can't be opened: {error.strerror}", MAKE_WRITABLE) from error


def explained(error: sqlite3.Error, ledger: Path) -> Refused:
    """The fact and the remedy of an SQLite error; codes as in https://sqlite.org/rescode.html."""
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = extended & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return Refused(f"the ledger {ledger} is in use by another command", "run the same again in a minute")
    if code in _DAMAGED or extended in _UNREADABLE:
        return StateDamaged(f"the ledger {ledger} is damaged: {error}", SALVAGE)
    if code in _UNWRITABLE and _full(ledger.parent):
        return StateUnwritable(f"the ledger {ledger} can't be written: the disk is full", MAKE_ROOM)
    if code in _UNWRITABLE:
        return StateUnwritable(f"the ledger {ledger} can't be written: {error}", MAKE_WRITABLE)
    return Refused(f"the ledger {ledger} can't be used: {error}", "see what that means for this file")


def explained_os(error: OSError) -> Refused:
    """The fact and the remedy of a file that can't be read or written; its path is the state folder's if unknown."""
    if error.filename is None and error.errno not in _OF_DISKS:
        return Refused(f"{type(error).__name__}: {error}", "see what that means, then run the same again")
    fact = f"{error.filename or state_dir()}: {error.strerror or error}"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return StateUnwritable(fact, MAKE_ROOM)
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return StateUnwritable(fact, MAKE_WRITABLE)
        case _:
            return Refused(fact, "see what that means for this file, then run the same again")


def _full(folder: Path) -> bool:
    with suppress(OSError):
        return os.statvfs(folder).f_bavail == 0
    return False
