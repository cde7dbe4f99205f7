"""Container images without a container engine: one layer, in the archive form that `docker save` writes.

`ctr images import`, `docker load` and `podman load` take it. The same content gives the same bytes: names are sorted,
times are zero, the owner is root (https://github.com/moby/docker-image-spec, image specification v1.2).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, NamedTuple

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FOLDERS = ("bin", "lib", "lib64", "sbin", "usr")
_DOCUMENTATION = "usr/share/"
_CHUNK = 1 << 20


class Image(NamedTuple):
    """An image: a static program, and what it calls."""

    references: tuple[str, ...]
    """Its whole names, such as ``registry.k8s.io/pause:3.10.2``."""
    program: Path
    path: str
    """Where the program is in the image, absolute; the image's entry point."""
    base: Path | None = None
    """A tar of unpacked distribution packages under it: programs and libraries are taken."""
    links: Mapping[str, str] = {}
    """Symbolic links, absolute path to target."""


class _Hashed(io.RawIOBase):
    """A file that knows its checksum when it is written."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.sha256.update(data)
        return self._target.write(data)


def write(image: Image, target: Path) -> None:
    """Write the archive of ``image``; beside it a temporary file of the same size for a while."""
    part = target.with_name(f".{target.name}.layer")
    try:
        with part.open("wb") as raw:
            hashed = _Hashed(raw)
            with tarfile.open(fileobj=hashed, mode="w|", format=tarfile.GNU_FORMAT) as layer:
                _fill(layer, image)
        digest = hashed.sha256.hexdigest()
        config = _json(
            {
                "architecture": "amd64",
                "os": "linux",
                "created": "1970-01-01T00:00:00Z",
                "config": {"Entrypoint": [image.path], "Env": [f"PATH={_PATH}"]},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "runcrate-iac"}],
            }
        )
        name = f"{hashlib.sha256(config).hexdigest()}.json"
        manifest = _json([{"Config": name, "RepoTags": image.references, "Layers": [f"{digest}.tar"]}])
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
            for path, text in ((name, config), ("manifest.json", manifest)):
                archive.addfile(_file(path, len(text), 0o644), io.BytesIO(text))
            with part.open("rb") as layer_file:
                archive.addfile(_file(f"{digest}.tar", part.stat().st_size, 0o644), layer_file)
    finally:
        part.unlink(missing_ok=True)


def _fill(layer: tarfile.TarFile, image: Image) -> None:
    made: set[str] = set()
    if image.base:
        with tarfile.open(image.base) as base:
            for member in sorted(_wanted(base), key=lambda one: one.name):
                made.add(member.name)
                layer.addfile(_plain(member), base.extractfile(member) if member.isreg() else None)
    program = image.path.lstrip("/")
    for folder in ("tmp", *_above([program, *(path.lstrip("/") for path in image.links)])):
        if folder not in made:
            info = _file(folder, 0, 0o1777 if folder == "tmp" else 0o755)
            info.type = tarfile.DIRTYPE
            layer.addfile(info)
    with image.program.open("rb") as content:
        layer.addfile(_file(program, image.program.stat().st_size, 0o755), content)
    for path, target in sorted(image.links.items()):
        info = _file(path.lstrip("/"), 0, 0o777)
        info.type, info.linkname = tarfile.SYMTYPE, target
        layer.addfile(info)


def _wanted(base: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in base:
        member.name = member.name.removeprefix("./")
        if member.name.split("/")[0] in _FOLDERS and not f"{member.name}/".startswith(_DOCUMENTATION):
            yield member


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    info = _file(member.name, member.size, member.mode)
    info.type = member.type
    info.linkname = member.linkname.removeprefix("./") if member.islnk() else member.linkname
    return info


def _above(paths: Iterable[str]) -> list[str]:
    """Every folder that these paths are in, outer ones first."""
    return sorted({str(folder) for path in paths for folder in Path(path).parents if str(folder) != "."})


def _file(name: str, size: int, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, mode
    return info


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
