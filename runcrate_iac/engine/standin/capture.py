"""A command run to its end with everything it prints kept, and shown line by line on the way."""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple

from runcrate_iac.engine.standin.process import Cancelled, Children, outcome

_CHUNK = 65536
OnLine = Callable[[str], None]


class CommandFailed(Exception):
    """The command could not be started or did not exit with 0."""

    def __init__(self, how: str, printed: str) -> None:
        """``how`` it ended, in Go's words."""
        super().__init__(how)
        self.how = how
        self.printed = printed
        """Both outputs, in the order in which they came."""


class Printed(NamedTuple):
    """What a command printed; bytes that are no UTF-8 are replaced, since Pulumi's strings are UTF-8."""

    stdout: str
    stderr: str


class _Stream:
    def __init__(self, on_line: OnLine | None) -> None:
        self._parts: list[bytes] = []
        self._on_line = on_line
        self._rest = b""

    def add(self, chunk: bytes) -> None:
        self._parts.append(chunk)
        if self._on_line:
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._on_line(line.decode(errors="replace").rstrip("\r"))

    def end(self) -> None:
        if self._on_line and self._rest:
            self._on_line(self._rest.decode(errors="replace"))

    def text(self) -> str:
        return b"".join(self._parts).decode(errors="replace")


def run(
    children: Children,
    argv: Sequence[str],
    *,
    directory: str | None,
    environment: Mapping[str, str],
    stdin: str,
    on_stdout: OnLine | None,
    on_stderr: OnLine | None,
) -> Printed:
    """Run to the end of the command and of whoever else holds its outputs.

    Raises :class:`CommandFailed`.
    """
    out, err, both = _Stream(on_stdout), _Stream(on_stderr), _Stream(None)
    pipe = subprocess.PIPE
    try:
        with children.started(
            argv,
            directory=directory,
            environment=environment,
            stdin=pipe if stdin else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
        ) as process:
            _relay(process, stdin.encode(), out, err, both)
    except (OSError, ValueError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise CommandFailed(f"cannot be started: {reason}", both.text()) from error
    except Cancelled as error:
        raise CommandFailed("cancelled before it was started", "") from error
    if process.returncode:
        raise CommandFailed(outcome(process.returncode), both.text())
    return Printed(out.text(), err.text())


def _relay(process: subprocess.Popen[bytes], stdin: bytes, out: _Stream, err: _Stream, both: _Stream) -> None:
    """Feed the command and collect its outputs until both have ended."""
    assert process.stdout  # noqa: S101 - opened as pipes
    assert process.stderr  # noqa: S101
    left = memoryview(stdin)
    with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        open_outputs = 2
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while open_outputs:
            for key, _ in selector.select():
                if not isinstance(key.data, _Stream):
                    left = _feed(key.fd, left)
                    if not left:
                        _close_input(selector, process.stdin)
                elif chunk := os.read(key.fd, _CHUNK):
                    key.data.add(chunk)
                    both.add(chunk)
                else:
                    key.data.end()
                    selector.unregister(key.fileobj)
                    open_outputs -= 1
        if process.stdin and not process.stdin.closed:
            process.stdin.close()


def _feed(descriptor: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(descriptor, left[:_CHUNK]) :]
    except BrokenPipeError:  # the command does not read all of it, which is its right
        return left[:0]


def _close_input(selector: selectors.BaseSelector, pipe: IO[bytes] | None) -> None:
    if pipe:
        selector.unregister(pipe)
        pipe.close()
