"""Every error this library raises, grouped by what the caller can do about it.

::

    RuncrateError
    ├── SpecError      correct the spec or the arguments; nothing was created   exit 2
    ├── Failed         it failed and everything reserved was released           exit 3
    │   └── StepFailed a step ended without doing its work (which, where, why)
    ├── Degraded       machines are up, storage or software is not: retry       exit 4
    ├── Leftover       something may still exist or be billed: look at the list exit 5
    ├── Refused        locked by someone else, or against a rule                exit 6
    │   ├── StateDamaged    a file of the state folder can't be understood: `gc`
    │   └── StateUnwritable a file of the state folder can't be written: make room, make it writable
    ├── ToolMissing    a program this computer needs is missing: run `setup`    exit 2
    └── Fault          a fault in this program: report it                       exit 1
"""

from __future__ import annotations

from typing import ClassVar


class RuncrateError(Exception):
    """The root. ``exit_code`` is the documented exit code of the command line."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, remedy: str = "") -> None:
        """``message`` says what is wrong and where; ``remedy`` says what to do about it."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}" if self.remedy else self.message


class SpecError(RuncrateError):
    """The spec or an argument is wrong. Nothing was created."""

    exit_code = 2


class ToolMissing(RuncrateError):
    """A program that this computer needs is missing. Nothing was created."""

    exit_code = 2


class Failed(RuncrateError):
    """The attempt failed and everything that had been reserved is released."""

    offers: tuple[str, ...] = ()
    """What is available now, in words (C8)."""


class StepFailed(Failed):
    """A step (machines, join, storage, software, check) did not do its work."""

    def __init__(self, message: str, remedy: str = "", node: str | None = None) -> None:
        """``node`` is the node's name where it is about one."""
        super().__init__(message, remedy)
        self.node = node


class Degraded(RuncrateError):
    """Machines are up and reachable, but storage or software is not as declared."""

    exit_code = 4


class Leftover(RuncrateError):
    """A machine could not be proved gone and may still be billed."""

    exit_code = 5


class Refused(RuncrateError):
    """Someone else holds the lock, or a rule forbids it."""

    exit_code = 6


class StateDamaged(Refused):
    """A file of the state folder is damaged; nothing was changed."""


class StateUnwritable(Refused):
    """A file of the state folder can't be written: the disk is full, or read-only."""


class Fault(RuncrateError):
    """A fault in this program itself, which nobody expected."""

    exit_code = 1
