"""Commands as child processes, each in a process group of its own, so that cancelling leaves nothing behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple

_CHUNK = 65536


class CommandFailed(Exception):
    """The command could not be started or did not exit with 0; says how, then what it printed."""


class Printed(NamedTuple):
    """What a command printed, undecoded."""

    stdout: bytes
    stderr: bytes


class _Stream:
    """One of a command's outputs: everything, and the line that is not complete yet."""

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self.parts: list[bytes] = []
        self._on_line = on_line
        self._rest = b""

    def add(self, chunk: bytes) -> None:
        self.parts.append(chunk)
        if self._on_line:
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._on_line(line.decode(errors="replace").rstrip("\r"))

    def end(self) -> None:
        if self._on_line and self._rest:
            self._on_line(self._rest.decode(errors="replace"))


class Commands:
    """The commands that run now. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._cancelled = False

    def cancel(self) -> None:
        """Kill every running command with its process group, and refuse new ones."""
        with self._lock:
            self._cancelled = True
            for process in self._running:
                # not reaped yet, so the group's number cannot belong to someone else
                os.killpg(process.pid, signal.SIGKILL)

    def run(
        self,
        argv: Sequence[str],
        *,
        directory: str | None,
        environment: Mapping[str, str],
        stdin: bytes,
        on_stdout: Callable[[str], None] | None,
        on_stderr: Callable[[str], None] | None,
    ) -> Printed:
        """Run to the end of the command and of whoever holds its outputs; raises :class:`CommandFailed`."""
        out, err, both = _Stream(on_stdout), _Stream(on_stderr), _Stream(None)
        process = self._start(argv, directory, environment, with_stdin=bool(stdin))
        try:
            _relay(process, stdin, out, err, both)
        finally:
            with self._lock:
                self._running.discard(process)
                code = process.wait()
        if code:
            how = f"signal: {signal.strsignal(-code)}".lower() if code < 0 else f"exit status {code}"
            raise CommandFailed(how, b"".join(both.parts).decode(errors="replace"))
        return Printed(b"".join(out.parts), b"".join(err.parts))

    def _start(
        self, argv: Sequence[str], directory: str | None, environment: Mapping[str, str], *, with_stdin: bool
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._cancelled:
                raise CommandFailed("cancelled before it was started", "")
            try:
                process = subprocess.Popen(
                    argv,
                    cwd=directory,
                    env=environment,
                    stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    process_group=0,
                )
            except (OSError, ValueError) as error:
                reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
                raise CommandFailed(f"cannot be started: {reason}", "") from error
            self._running.add(process)
            return process


def _relay(process: subprocess.Popen[bytes], stdin: bytes, out: _Stream, err: _Stream, both: _Stream) -> None:
    """Feed the command and collect its outputs until both have ended."""
    assert process.stdout  # noqa: S101 - opened as pipes
    assert process.stderr  # noqa: S101
    streams: dict[IO[bytes], _Stream] = {process.stdout: out, process.stderr: err}
    left = memoryview(stdin)
    with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
        for pipe in streams:
            selector.register(pipe, selectors.EVENT_READ)
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while streams:
            for key, _ in selector.select():
                if key.fileobj is process.stdin:
                    left = _feed(process.stdin, left)
                    if not left:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                pipe = key.fileobj
                stream = streams[pipe]  # type: ignore[index]  # only what was registered comes back
                if chunk := os.read(key.fd, _CHUNK):
                    stream.add(chunk)
                    both.add(chunk)
                else:
                    stream.end()
                    selector.unregister(pipe)
                    del streams[pipe]  # type: ignore[arg-type]
        if process.stdin:
            process.stdin.close()


def _feed(pipe: IO[bytes], left: memoryview) -> memoryview:
    try:
        return left[os.write(pipe.fileno(), left[:_CHUNK]) :]
    except BrokenPipeError:  # the command does not read all of it, which is its right
        return memoryview(b"")
