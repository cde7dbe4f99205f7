"""Shell scripts on nodes: sent on standard input, whatever the login shell, and made of few processes.

pyinfra quotes a command for a POSIX login shell; with csh or fish a line break or ``!`` in it fails (F29). So the
command here is always just ``sh -s``, and the script travels on standard input, where it shows in no process list.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Generator
from functools import cache
from typing import Any, NamedTuple

from pyinfra import host
from pyinfra.api import FactBase, StringCommand, operation

from runcrate_iac.render import render

MARKER = "--- runcrate-iac ---"
"""The line that a script begins with: what stands before it a login shell's start-up files have printed (F29)."""
ANSWER = "--- answer ---"
"""The line after which a script that has changed things tells what it was asked."""


class File(NamedTuple):
    """A file as it should be."""

    path: str
    text: str
    """Ends with a line break."""
    mode: str = "644"
    owner: str = "root"


def know(*paths: str) -> str:
    """The shell text that looks at these files, all at once, before :func:`put` or ``block`` is about them."""
    return f"know {shlex.join(paths)}\n"


def put(file: File) -> str:
    """The shell text that makes the file what it should be; :func:`know` it first."""
    checksum = hashlib.sha256(file.text.encode()).hexdigest()
    return f"put {shlex.quote(file.path)} {file.mode} {file.owner} {checksum} {shlex.quote(file.text)}\n"


def files(*wanted: File) -> str:
    """The shell text that makes all of these what they should be."""
    return know(*(file.path for file in wanted)) + "".join(put(file) for file in wanted)


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
        """The lines after the marker."""
        return after_marker(output)


def ask(text: str, **arguments: Any) -> list[str]:
    """The lines that a script prints on the current host; it must change nothing (it runs in a dry run too).

    The functions of ``templates/shell/lib.sh`` are there, as in :func:`converge`.
    """
    lines: list[str] = host.get_fact(Lines, _stdin=_script(text), **arguments)
    return lines


def hear(text: str) -> list[str]:
    """The lines that come back for a read-only script of the login user's, errors too, whether it ran or was refused.

    Without sudo, and a failure is no failure of the step: what it means is the caller's to say.
    """
    _, output = host.run_shell_command(StringCommand("sh -s"), _stdin=_script(text))
    return after_marker(output.output_lines)


@operation()
def script(text: str, *, differs: bool = True) -> Generator[StringCommand]:
    """Run a script where something differs from what is wanted, as the caller has found out."""
    if differs:
        yield StringCommand("sh -s", _stdin=_script(text))
    else:
        host.noop("nothing differs")


class ConvergeCommand(StringCommand):
    """A command that has changed something if it printed anything: what differed, a line each."""


@operation()
def converge(text: str) -> Generator[StringCommand]:
    """Run a script that finds out itself what differs, and changes only that.

    It changes things only through the functions of ``templates/shell/lib.sh`` (``put``, ``block``, ``run``,
    ``packages``), which print what they do, and do nothing where ``$dry`` is set. Where pyinfra looks for changes first
    (its command line without ``-y``) it runs dry before, so that the plan is true; in the worker, which judges by the
    output, it runs once. ``did_change`` says no more than that it ran.
    """
    if host.state.should_check_for_changes() and not ask(f"dry=yes\n{text}"):
        host.noop("nothing differs")
        return
    yield ConvergeCommand("sh -s", _stdin=_script(text))


def converge_then_ask(name: str, text: str, question: str) -> list[str]:
    """:func:`converge`, and in the same command :func:`ask`; for a ``python.call``, since it waits for the answer."""
    done = converge(name=name, text=f"{text}\necho '{ANSWER}'\n{question}")
    lines = after_marker(done.stdout_lines)
    return lines[lines.index(ANSWER) + 1 :]


def differed(output: list[str]) -> list[str]:
    """What a script of :func:`converge` changed, by its output."""
    lines = after_marker(output)
    return lines[: lines.index(ANSWER)] if ANSWER in lines else lines


def after_marker(output: list[str]) -> list[str]:
    """The lines of the script itself: what a login shell's start-up files print stands before the marker (F29).

    It stands on the marker's own line where it ended without a line break.
    """
    marked = next((number for number, line in enumerate(output) if line.endswith(MARKER)), -1)
    return output[marked + 1 :]


def _script(text: str) -> str:
    return f"echo '{MARKER}'\n{_library()}\n{text}"


@cache
def _library() -> str:
    return render("shell/lib.sh")
