"""Programs built from Go modules of ours, which pin everything that goes into them by go.mod and go.sum."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runcrate_iac.engine.progress import watch
from runcrate_iac.errors import Failed, ToolMissing
from runcrate_iac.model.progress import Report

OLDEST_GO = (1, 21)
"""From here on Go fetches the newer toolchain that go.mod asks for by itself."""
_DOWNLOAD_SECONDS = 1800
_BUILD_SECONDS = 3600


def find_go() -> str | None:
    """A Go that can build our modules, or None."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not go:
        return None
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=False).stdout
    match = re.match(r"go(\d+)\.(\d+)", version)
    return go if match and (int(match[1]), int(match[2])) >= OLDEST_GO else None


class Module:
    """A copy of a module, in a folder that Go may write to."""

    def __init__(self, go: str, folder: Path, what: str, report: Report, environment: Mapping[str, str]) -> None:
        """``what`` names the module in messages."""
        self._go, self._folder, self._what, self._report = go, folder, what, report
        self._environment = environment

    def build(self, package: str, program: Path, variables: Mapping[str, str] | None = None) -> None:
        """Build the program in ``package``, static and without symbols, with these string variables set.

        What was compiled stays in Go's own cache, so that a second try goes on where the first ended. Raises
        :class:`Failed` with Go's last lines.
        """
        name = program.name
        listed = self._run(
            ["list", "-deps", package], f"{self._what}: fetching its Go modules", "{} fetched", _DOWNLOAD_SECONDS
        )
        flags = " ".join(["-s -w", *(f"-X {key}={value}" for key, value in (variables or {}).items())])
        self._run(
            ["build", "-v", "-trimpath", "-ldflags", flags, "-o", str(program.absolute()), package],
            f"{self._what}: building {name} (once, some minutes)",
            f"{{}} of {len(listed.splitlines())} packages compiled",
            _BUILD_SECONDS,
        )

    def source_of(self, module: str) -> Path:
        """The folder with the source of a module that was fetched."""
        command = [self._go, "list", "-m", "-f", "{{.Dir}}", module]
        done = subprocess.run(
            command, cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True
        )
        return Path(done.stdout.strip())

    def _run(self, arguments: list[str], title: str, counted: str, seconds: float) -> str:
        """Standard output; the lines of standard error are counted and told as ``counted``."""
        count = 0

        def how_far(line: str) -> str:
            nonlocal count
            count += not line.startswith("#")  # compiler output
            return counted.format(count)

        with (self._folder / "output").open("w+") as output:
            ended = watch(
                [self._go, *arguments],
                title,
                self._report,
                seconds=seconds,
                how_far=how_far,
                directory=self._folder,
                environment=self._environment,
                output=output,
            )
            if ended.code:
                raise Failed(
                    f"{self._what} could not be built: go {arguments[0]} failed:\n{ended.last_lines}",
                    "check that the Go module proxy is in reach (go env GOPROXY) and that there is space on the disk",
                )
            output.seek(0)
            return output.read()


@contextmanager
def opened(
    source: Path, what: str, report: Report, *, otherwise: str = "", target: Mapping[str, str] | None = None
) -> Iterator[Module]:
    """The module in the folder ``source``, to build from.

    ``target``: GOOS and GOARCH, where the programs are not for this computer. Raises :class:`ToolMissing` without Go;
    ``otherwise`` goes on with its remedy after "install Go".
    """
    go = find_go()
    if not go:
        raise ToolMissing(
            f"{what} can be neither downloaded nor built: no Go {OLDEST_GO[0]}.{OLDEST_GO[1]} or later",
            f"install Go (https://go.dev/dl){otherwise}, and try again",
        )
    with tempfile.TemporaryDirectory() as folder:
        for file in source.iterdir():
            shutil.copyfile(file, Path(folder, file.name))
        yield Module(go, Path(folder), what, report, _environment() | dict(target or {}))


def _environment() -> dict[str, str]:
    chosen = {"CGO_ENABLED": "0", "GOWORK": "off"}
    return {"GOTOOLCHAIN": "auto"} | os.environ | chosen
