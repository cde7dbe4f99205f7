"""Filling an artifact directory for one software, and its manifest after it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from runcrate_iac.artifacts import store
from runcrate_iac.artifacts.build import kubernetes, ray
from runcrate_iac.errors import SpecError
from runcrate_iac.model.artifacts import FOLDERS, MANIFEST, Manifest, lacking
from runcrate_iac.model.progress import Report
from runcrate_iac.model.spec import Software


def fill(directory: Path, software: Software, report: Report) -> Manifest:
    """Bring into the directory what ``software`` needs and it lacks, and return the manifest.

    What is there and as the manifest says stays as it is, so that a second call changes nothing; a call that was broken
    off is gone on with. Raises :class:`SpecError` where the directory can't be one, and as the builds do.
    """
    if directory.exists() and not directory.is_dir():
        raise SpecError(f"artifacts: {directory} is no folder", "name a folder, which is made where there is none")
    if complete := _complete(directory, software, report):
        return complete
    target = directory / FOLDERS[software]
    target.mkdir(parents=True, exist_ok=True)
    if software is Software.KUBERNETES:
        _copy(kubernetes.made(report) / FOLDERS[software], target, report)
    else:
        with tempfile.TemporaryDirectory(prefix=".new-", dir=target) as fresh:
            ray.download(Path(fresh), report)
            _copy(Path(fresh), target, report)
    return store.seal(directory, report, FOLDERS[software])


def _complete(directory: Path, software: Software, report: Report) -> Manifest | None:
    if not (directory / MANIFEST).exists():
        return None
    manifest = store.read(directory)
    wrong = lacking(manifest, software) or store.verify(directory, manifest.below(FOLDERS[software]), report)
    return None if wrong else manifest


def _copy(source: Path, target: Path, report: Report) -> None:
    for file in sorted(source.rglob("*")):
        copy = target / file.relative_to(source)
        if not file.is_file():
            continue
        report(f"copying {copy.name}", None)
        copy.parent.mkdir(parents=True, exist_ok=True)
        part = copy.with_name(f".{copy.name}.part")
        shutil.copy2(file, part)
        part.replace(copy)
