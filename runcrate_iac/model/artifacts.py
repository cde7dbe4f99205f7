"""An artifact directory: the files that nodes would else download, with a manifest of their checksums.

::

    artifacts.json                                     the manifest
    kubernetes/v1.37.2/bin/{kubeadm,kubelet,kubectl}
    kubernetes/v1.37.2/images/*.tar                    archives for `ctr images import`
    ray/2.60.0/wheels/*.whl
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from runcrate_iac.model.base import Model
from runcrate_iac.model.spec import ClusterSpec, Software
from runcrate_iac.model.versions import KUBERNETES, RAY

MANIFEST = "artifacts.json"
KUBERNETES_FOLDER = f"kubernetes/v{KUBERNETES}"
KUBERNETES_BIN = f"{KUBERNETES_FOLDER}/bin"
KUBERNETES_IMAGES = f"{KUBERNETES_FOLDER}/images"
RAY_WHEELS = f"ray/{RAY}/wheels"

FOLDERS = {Software.KUBERNETES: KUBERNETES_FOLDER, Software.RAY: RAY_WHEELS}
"""Where the files of each software are that needs any."""
_NEEDED = {
    Software.KUBERNETES: (
        *(rf"{re.escape(KUBERNETES_BIN)}/{name}" for name in ("kubeadm", "kubelet", "kubectl")),
        rf"{re.escape(KUBERNETES_IMAGES)}/[^/]+\.tar",
    ),
    Software.RAY: (rf"{re.escape(RAY_WHEELS)}/ray-{re.escape(RAY)}-[^/]+\.whl",),
}
"""By software, patterns of which each has to match a file."""

_PART = r"[A-Za-z0-9_+][A-Za-z0-9._+-]*"
_PATH = re.compile(rf"{_PART}(/{_PART})*")


def _plain(path: str) -> str:
    """A path below the directory that needs no quoting in any shell, and can't lead out of it."""
    if not _PATH.fullmatch(path):
        msg = f"not the path of a file below the directory, of letters, digits and . _ + -: {path!r:.80}"
        raise ValueError(msg)
    return path


class Entry(Model):
    """What a file has to be."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=0)]


class Manifest(Model):
    """All files of an artifact directory, by their path in it."""

    version: Literal[1] = 1
    files: Mapping[Annotated[str, AfterValidator(_plain)], Entry]

    def below(self, folder: str) -> dict[str, Entry]:
        """The files in this folder of the directory, and in folders of it, by path, sorted."""
        return {path: entry for path, entry in sorted(self.files.items()) if path.startswith(f"{folder}/")}


class Artifact(NamedTuple):
    """A file of the artifact directory and where it goes."""

    source: str
    """Its path in the artifact directory."""
    target: str
    """Its absolute path on the node, of letters, digits and ``. _ + - /``."""
    mode: str = "644"


class Preload(Model):
    """What nodes will be brought after their start: a provider that makes its own machines may start them with it."""

    software: Software
    artifacts: str
    """The path of the artifact directory on this computer."""


class Problem(Model):
    """A file that is not what the manifest says."""

    path: str
    fact: str


def preload(spec: ClusterSpec) -> Preload | None:
    """What machines of this spec may have before they start, if anything."""
    if spec.artifacts is None or spec.software not in FOLDERS:
        return None
    return Preload(software=spec.software, artifacts=spec.artifacts)


def lacking(manifest: Manifest, software: Software) -> list[str]:
    """What this software needs of the directory and the manifest doesn't have, as paths with ``*`` for any name."""
    return [
        re.sub(r"\[\^/\]\+", "*", pattern).replace("\\", "")
        for pattern in _NEEDED.get(software, ())
        if not any(re.fullmatch(pattern, path) for path in manifest.files)
    ]


def other_versions(manifest: Manifest, software: Software) -> list[str]:
    """The versions of this software in the directory that are not the one that nodes run."""
    found = {path.split("/")[1] for path in manifest.files if path.startswith(f"{software}/")}
    return sorted(found - {FOLDERS[software].split("/")[1]})


def is_artifact_path(path: str) -> bool:
    """Whether a file of this name may be in an artifact directory."""
    return _PATH.fullmatch(path) is not None
