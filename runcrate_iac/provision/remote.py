"""Shell scripts on nodes: sent on standard input, whatever the login shell, and made of few processes.

pyinfra quotes a command for a POSIX login shell. With csh or fish a line break or ``!`` in it fails (F29), so the
command here is always just ``sh -s``, and the text travels on standard input, where it shows in no process list.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pyinfra import host
from pyinfra.api import FactBase, StringCommand, operation

_MARKER = "--- runcrate-iac ---"


class Lines(FactBase[list[str]]):
    """The output lines of a read-only script that is given as ``_stdin``."""

    @staticmethod
    def default() -> list[str]:
        """No lines."""
        return []

    def command(self) -> str:
        """The shell that reads the script."""
        return "sh -s"

    def process(self, output: list[str]) -> list[str]:
        """The lines after the marker: what a login shell's start-up files print stands before it (F29)."""
        return output[output.index(_MARKER) + 1 :] if _MARKER in output else output


def ask(script: str, **arguments: Any) -> list[str]:
    """The lines that a script prints on the current host; it must change nothing (it runs in a dry run too)."""
    lines: list[str] = host.get_fact(Lines, _stdin=f"echo '{_MARKER}'\n{script}", **arguments)
    return lines


@operation()
def script(text: str, *, differs: bool = True) -> Generator[StringCommand]:
    """Run a script where something differs from what is wanted, as the caller has found out."""
    if differs:
        yield StringCommand("sh -s", _stdin=text)
    else:
        host.noop("nothing differs")
