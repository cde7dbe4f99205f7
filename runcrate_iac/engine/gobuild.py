"""Pulumi built from Go modules: for networks where only package registries are in reach."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from runcrate_iac.engine.launchers import EXECUTOR
from runcrate_iac.engine.progress import watch
from runcrate_iac.engine.versions import ENGINE, LAYOUT
from runcrate_iac.errors import Failed, ToolMissing
from runcrate_iac.model.progress import Report

MODULE = Path(__file__).parent / "gomod"
OLDEST_GO = (1, 21)
"""From here on Go fetches the newer toolchain that go.mod asks for by itself."""
_PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
_SDK = "github.com/pulumi/pulumi/sdk/v3"
_DOWNLOAD_SECONDS = 1800
_BUILD_SECONDS = 3600


def key() -> str:
    """What the result depends on, as a short name."""
    digest = hashlib.sha256(f"{LAYOUT} {platform.system()} {platform.machine()}".encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return f"{ENGINE}-{digest.hexdigest()[:12]}"


def find_go() -> str | None:
    """A Go that can build it, or None."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not go:
        return None
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=False).stdout
    match = re.match(r"go(\d+)\.(\d+)", version)
    return go if match and (int(match[1]), int(match[2])) >= OLDEST_GO else None


def build(into: Path, report: Report) -> None:
    """Put ``pulumi`` and the parts of its Python support that the modules carry into ``into``.

    Raises :class:`ToolMissing` without Go, :class:`Failed` with Go's last lines.
    """
    go = find_go()
    if not go:
        raise ToolMissing(
            f"Pulumi {ENGINE} can be neither downloaded nor built: no Go {OLDEST_GO[0]}.{OLDEST_GO[1]} or later",
            "install Go (https://go.dev/dl), or Pulumi itself (https://www.pulumi.com/docs/install), and try again",
        )
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(MODULE / name, work / name)
        packages = _download(go, work, report)
        _compile(go, work, packages, into / "pulumi", report)
        sdk = _go(go, work, ["list", "-m", "-f", "{{.Dir}}", _SDK]).strip()
    for source in (f"cmd/{EXECUTOR}", "dist/pulumi-resource-pulumi-python"):
        copy = into / Path(source).name
        shutil.copyfile(Path(sdk, "python", source), copy)
        copy.chmod(0o755)


def _environment() -> dict[str, str]:
    chosen = {"CGO_ENABLED": "0", "GOWORK": "off"}
    return {"GOTOOLCHAIN": "auto"} | os.environ | chosen


def _go(go: str, work: Path, arguments: list[str]) -> str:
    return subprocess.run(
        [go, *arguments], cwd=work, env=_environment(), stdout=subprocess.PIPE, text=True, timeout=300, check=True
    ).stdout


def _run(go: str, work: Path, arguments: list[str], title: str, report: Report, *, counted: str, seconds: float) -> str:
    """Standard output; the lines of standard error are counted and told as ``counted``."""
    count = 0

    def how_far(line: str) -> str:
        nonlocal count
        count += not line.startswith("#")  # compiler output
        return counted.format(count)

    with (work / "output").open("w+") as output:
        ended = watch(
            [go, *arguments],
            title,
            report,
            seconds=seconds,
            how_far=how_far,
            directory=work,
            environment=_environment(),
            output=output,
        )
        if ended.code:
            raise Failed(
                f"Pulumi could not be built: go {arguments[0]} failed:\n{ended.last_lines}",
                "check that the Go module proxy is in reach (go env GOPROXY) and that there is space on the disk",
            )
        output.seek(0)
        return output.read()


def _download(go: str, work: Path, report: Report) -> int:
    """Fetch the modules, checked against go.sum; the number of packages to compile."""
    title = "fetching the Go modules of Pulumi"
    arguments = ["list", "-deps", _PACKAGE]
    listed = _run(go, work, arguments, title, report, counted="{} fetched", seconds=_DOWNLOAD_SECONDS)
    return len(listed.splitlines())


def _compile(go: str, work: Path, packages: int, binary: Path, report: Report) -> None:
    title = f"building Pulumi {ENGINE} (once, some minutes)"
    flags = f"-s -w -X {_SDK}/go/common/version.Version=v{ENGINE}"
    arguments = ["build", "-v", "-trimpath", "-ldflags", flags, "-o", str(binary), _PACKAGE]
    counted = f"{{}} of {packages} packages compiled"
    _run(go, work, arguments, title, report, counted=counted, seconds=_BUILD_SECONDS)
