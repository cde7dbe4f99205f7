"""What a warm snapshot has besides the image: files of an artifact directory, and what a script made of them there.

Emulated machines take minutes to receive and unpack them, each for itself; this way it is done once for all clones.
The deploys find everything in place, and check it as they check their own work.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO

from runcrate_iac.artifacts import store
from runcrate_iac.errors import SpecError
from runcrate_iac.machines.local.records import LOGIN
from runcrate_iac.model import kubernetes, ray
from runcrate_iac.model.artifacts import FOLDERS, Artifact, Entry, Preload
from runcrate_iac.model.spec import Software
from runcrate_iac.render import render

_BRING = Path(__file__).parent / "guest" / "preload.sh"


@dataclass(frozen=True)
class Load:
    """Files and where they go, and the script that runs as root when they are there."""

    what: str
    directory: Path
    files: Mapping[Artifact, Entry]
    script: str

    @property
    def key(self) -> list[object]:
        """All that it depends on."""
        return [self.script, *([*artifact, entry.sha256] for artifact, entry in sorted(self.files.items()))]

    def write(self, archive: Path) -> None:
        """Write the tar archive of the files, as they are to be in the root file system.

        Raises :class:`SpecError` for a file that is not what the manifest says.
        """
        with tarfile.open(archive, "w") as tar:
            for artifact, entry in self.files.items():
                info = tarfile.TarInfo(artifact.target.lstrip("/"))
                info.size, info.mode = entry.bytes, int(artifact.mode, 8)
                with (self.directory / artifact.source).open("rb") as file:
                    read = _Hashed(file)
                    tar.addfile(info, read)
                if read.sum.hexdigest() != entry.sha256:
                    raise SpecError(
                        f"artifacts: {self.directory / artifact.source} was altered just now",
                        f"runcrate-iac artifacts verify {self.directory}",
                    )


class _Hashed:
    """A file whose SHA-256 is known when it has been read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sum = hashlib.sha256()
        self._file = file

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.sum.update(data)
        return data


def load(wanted: Preload) -> Load:
    """What machines get of this artifact directory; every node as much as the head, since all are clones of one.

    Raises :class:`SpecError` where the directory has no manifest that can be read.
    """
    directory = Path(wanted.artifacts)
    entries = store.read(directory).below(FOLDERS[wanted.software])
    artifacts, text = _MAKERS[wanted.software](entries)
    script = render("shell/lib.sh") + _BRING.read_text() + text
    return Load(wanted.software, directory, {one: entries[one.source] for one in artifacts}, script)


def _kubernetes(entries: Mapping[str, Entry]) -> tuple[list[Artifact], str]:
    images = kubernetes.archives(entries, head=True)
    sums = {PurePath(one.target).name: entries[one.source].sha256 for one in images}
    text = render("kubernetes/preload.sh.j2", folder=kubernetes.ARCHIVES, archives=sums)
    return [*kubernetes.programs(head=True), *images], text


def _ray(entries: Mapping[str, Entry]) -> tuple[list[Artifact], str]:
    return ray.wheels(entries), render("ray/install.sh.j2", **ray.installation(LOGIN, ray.WHEELS))


_MAKERS = {Software.KUBERNETES: _kubernetes, Software.RAY: _ray}
