"""An artifact directory on this computer: its manifest, and whether its files are what the manifest says."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from runcrate_iac.errors import SpecError
from runcrate_iac.model.artifacts import (
    FOLDERS,
    MANIFEST,
    Entry,
    Manifest,
    Problem,
    is_artifact_path,
    lacking,
    other_versions,
)
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import ClusterSpec, Kind
from runcrate_iac.paths import write_atomic

_CHUNK = 1 << 20
_TELL_SECONDS = 2.0
_SHOWN = 5
"""Problems that an error names; `verify` shows all."""
_SEAL = "runcrate-iac artifacts seal"


def refuse_unusable(spec: ClusterSpec) -> None:
    """Raise :class:`SpecError` where the spec's artifact directory lacks, or has altered, what its software needs.

    Or where it names none, and its machines have no way to the internet.
    """
    if spec.software not in FOLDERS:
        return
    if spec.artifacts is None:
        if spec.provider == "local" and spec.machine.kind is Kind.CONTAINER:
            fact = f"containers of this computer have no way to the internet, where {spec.software} is fetched from"
            remedy = f"`runcrate-iac artifacts build {spec.software} DIR`, and `artifacts: DIR` in the spec"
            raise SpecError(f"artifacts: {fact}", remedy)
        return
    directory = Path(spec.artifacts)
    manifest = read(directory)
    if missing := lacking(manifest, spec.software):
        others = other_versions(manifest, spec.software)
        raise SpecError(
            f"artifacts: {directory} has no {missing[0]}, which {spec.software} needs"
            + (f" (it has {', '.join(others)})" if others else ""),
            f"`runcrate-iac artifacts build {spec.software} {directory}`, or put it there and `{_SEAL} {directory}`",
        )
    problems = verify(directory, manifest.below(FOLDERS[spec.software]), _quiet)
    if problems:
        shown = "\n".join(f"artifacts: {directory / one.path}: {one.fact}" for one in problems[:_SHOWN])
        more = f"\nand {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise SpecError(f"{shown}{more}", f"bring the files back, or `{_SEAL} {directory}` if the change was meant")


def read(directory: Path) -> Manifest:
    """The directory's manifest.

    Raises :class:`SpecError` where there is none, or it can't be understood.
    """
    file = directory / MANIFEST
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        if not directory.is_dir():
            raise SpecError(f"artifacts: there is no folder {directory}", "name the folder that has them") from None
        raise SpecError(f"artifacts: {directory} has no {MANIFEST}", f"{_SEAL} {directory}") from None
    except OSError as error:
        raise SpecError(f"artifacts: {file}: {error.strerror}", "name a folder that can be read") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        fact = f"{where}: {first['msg']}".removeprefix(": ")
        raise SpecError(f"artifacts: {file} is no manifest: {fact}", f"write it anew: {_SEAL} {directory}") from None


def verify(directory: Path, files: Mapping[str, Entry], report: Report) -> list[Problem]:
    """What is wrong with these files of the directory; every one is read whole."""
    looked = ((path, _problem(directory, path, entry, report)) for path, entry in files.items())
    return [Problem(path=path, fact=fact) for path, fact in looked if fact]


def unlisted(directory: Path, manifest: Manifest) -> list[Problem]:
    """The files that are there and not in the manifest: nothing takes them."""
    fact = "not in the manifest"
    return [Problem(path=path, fact=fact) for path in _paths(directory) if path not in manifest.files]


def seal(directory: Path, report: Report, folder: str | None = None) -> Manifest:
    """Write the manifest of what is there; of what is in ``folder`` alone where that is given, the rest as it was.

    A manifest that would be the same is not written. Raises :class:`SpecError` for a file that can't be an artifact.
    """
    if not directory.is_dir():
        raise SpecError(f"artifacts: there is no folder {directory}", "name the folder that has the files")
    old = read(directory) if (directory / MANIFEST).exists() and folder else Manifest(files={})
    kept = {path: entry for path, entry in old.files.items() if folder and not path.startswith(f"{folder}/")}
    found = [path for path in _paths(directory) if not folder or path.startswith(f"{folder}/")]
    manifest = Manifest(files=dict(sorted((kept | _entries(directory, found, report)).items())))
    text = manifest.model_dump_json(indent=1) + "\n"
    file = directory / MANIFEST
    if not file.exists() or file.read_text() != text:
        write_atomic(file, text, mode=0o644)
    return manifest


def digest(file: Path, title: str, report: Report) -> str:
    """The SHA-256 of a file, told every two seconds how far."""
    total, done, told = file.stat().st_size, 0, time.monotonic()
    checksum = hashlib.sha256()
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            checksum.update(chunk)
            done += len(chunk)
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                report(f"reading {title}: {done // 10**6} of {total // 10**6} MB", None)
    return checksum.hexdigest()


def _entries(directory: Path, paths: Iterable[str], report: Report) -> dict[str, Entry]:
    entries = {}
    for path in paths:
        file = directory / path
        if fact := _not_a_file(directory, path):
            raise SpecError(f"artifacts: {file}: {fact}", "put the file itself there")
        if not is_artifact_path(path):
            raise SpecError(f"artifacts: {file}: such a name can't go into a manifest", "letters, digits and . _ + -")
        entries[path] = Entry(sha256=digest(file, path, report), bytes=file.stat().st_size)
    return entries


def _problem(directory: Path, path: str, entry: Entry, report: Report) -> str:
    file = directory / path
    if fact := _not_a_file(directory, path):
        return fact
    try:
        if (size := file.stat().st_size) != entry.bytes:
            return f"altered: {size} bytes, the manifest says {entry.bytes}"
        found = digest(file, path, report)
    except OSError as error:
        return str(error.strerror)
    return f"altered: SHA-256 {found[:12]}…, the manifest says {entry.sha256[:12]}…" if found != entry.sha256 else ""


def _not_a_file(directory: Path, path: str) -> str:
    file = directory / path
    if not file.resolve().is_relative_to(directory.resolve()):
        return "a link that leads out of the directory"
    return "" if file.is_file() else "missing" if not file.exists() else "not a file"


def _paths(directory: Path) -> list[str]:
    """All files but the manifest and hidden ones."""
    found = (file.relative_to(directory) for file in directory.rglob("*") if file.is_symlink() or not file.is_dir())
    return sorted(
        path.as_posix()
        for path in found
        if path.as_posix() != MANIFEST and not any(part.startswith(".") for part in path.parts)
    )


def _quiet(_message: str, _node: str | None) -> None:
    """Nobody listens."""
