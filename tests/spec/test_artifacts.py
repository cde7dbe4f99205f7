"""Artifact directories: sealed, verified, and refused before anything is reserved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runcrate_iac.artifacts import store
from runcrate_iac.cli.app import app
from runcrate_iac.errors import SpecError
from runcrate_iac.model import versions
from runcrate_iac.model.artifacts import KUBERNETES_BIN, KUBERNETES_IMAGES, MANIFEST, RAY_WHEELS, Manifest
from runcrate_iac.model.spec import ClusterSpec, Kind, Software, parse
from runcrate_iac.model.versions import RAY
from runcrate_iac.specfile import load

WHEEL = f"{RAY_WHEELS}/ray-{RAY}-cp313-cp313-manylinux2014_x86_64.whl"
KUBERNETES = [*(f"{KUBERNETES_BIN}/{name}" for name in ("kubeadm", "kubelet", "kubectl")), f"{KUBERNETES_IMAGES}/a.tar"]


def quiet(_message: str, _node: str | None) -> None:
    """Report to nobody."""


def filled(directory: Path, *paths: str) -> Path:
    """A sealed directory with these files; each has its own path as content."""
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(path)
    store.seal(directory, quiet)
    return directory


def spec(directory: Path, software: Software) -> ClusterSpec:
    """A cluster that takes its files from the directory."""
    return ClusterSpec(name="demo", provider="given", software=software, artifacts=str(directory))


def refused(directory: Path, software: Software = Software.RAY) -> str:
    """The error for a cluster with this directory."""
    with pytest.raises(SpecError) as error:
        store.refuse_unusable(spec(directory, software))
    assert error.value.remedy
    return str(error.value)


def alter(file: Path) -> None:
    """Another content of the same size."""
    file.write_bytes(bytes(byte ^ 1 for byte in file.read_bytes()))


def test_a_sealed_directory_is_taken(tmp_path: Path) -> None:
    """The manifest has the size and the SHA-256 of every file, and a directory as it was sealed is no error."""
    filled(tmp_path, WHEEL, *KUBERNETES)
    files = json.loads((tmp_path / MANIFEST).read_text())["files"]
    assert files.keys() == {WHEEL, *KUBERNETES}
    assert files[WHEEL] == {"sha256": hashlib.sha256(WHEEL.encode()).hexdigest(), "bytes": len(WHEEL)}
    for software in Software:
        store.refuse_unusable(spec(tmp_path, software))


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        (Path.unlink, "missing"),
        (alter, "altered: SHA-256"),
        (lambda file: file.write_text("longer than it was, whatever it was, by many characters more"), "altered: "),
        (lambda file: (file.unlink(), file.mkdir()), "not a file"),
        (lambda file: (file.unlink(), file.symlink_to("/etc/hostname")), "leads out of the directory"),
    ],
)
def test_a_file_that_is_not_what_was_sealed_is_refused(
    tmp_path: Path, damage: Callable[[Path], object], fact: str
) -> None:
    """The error names the file and the fact; software that does not need the file does not mind."""
    filled(tmp_path, WHEEL, *KUBERNETES)
    damage(tmp_path / WHEEL)
    message = refused(tmp_path)
    assert WHEEL in message
    assert fact in message
    store.refuse_unusable(spec(tmp_path, Software.KUBERNETES))


def test_containers_of_this_computer_need_a_directory() -> None:
    """They have no way to the internet: software that is fetched from there is refused, and no other machine (C21)."""

    def look(software: Software, kind: Kind, provider: str = "local") -> None:
        machine = {"kind": kind, "memory": "2GiB"}
        store.refuse_unusable(parse({"name": "demo", "software": software, "provider": provider, "machine": machine}))

    with pytest.raises(SpecError) as error:
        look(Software.RAY, Kind.CONTAINER)
    assert str(error.value).startswith("artifacts: containers of this computer have no way to the internet")
    assert "`runcrate-iac artifacts build ray DIR`, and `artifacts: DIR` in the spec" in error.value.remedy
    look(Software.SLURM, Kind.CONTAINER)
    look(Software.RAY, Kind.VM)
    look(Software.RAY, Kind.CONTAINER, "elsewhere")


@pytest.mark.parametrize("gone", [*KUBERNETES, WHEEL])
def test_what_the_software_needs_has_to_be_sealed(tmp_path: Path, gone: str) -> None:
    """A directory without kubeadm, an image or the wheel of the pinned version is refused with what is lacking."""
    filled(tmp_path, *(path for path in [*KUBERNETES, WHEEL] if path != gone))
    software = Software.RAY if gone == WHEEL else Software.KUBERNETES
    message = refused(tmp_path, software)
    assert Path(gone).parent.as_posix() in message
    assert f"runcrate-iac artifacts build {software} {tmp_path}" in message
    assert "it has" not in message


def test_another_version_is_told(tmp_path: Path) -> None:
    """A directory with another Kubernetes is refused with the version that it has and the one that is needed (C6)."""
    filled(tmp_path, "kubernetes/v1.20.1/bin/kubeadm", WHEEL)
    message = refused(tmp_path, Software.KUBERNETES)
    assert f"has no kubernetes/v{versions.KUBERNETES}/bin/kubeadm, which kubernetes needs (it has v1.20.1)" in message


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "no manifest"),
        ("[]", "no manifest"),
        ('{"files": {"../secret": {"sha256": "%s", "bytes": 1}}}' % ("0" * 64), "below the directory"),
        ('{"files": {"/etc/passwd": {"sha256": "%s", "bytes": 1}}}' % ("0" * 64), "below the directory"),
        ('{"files": {"a b; rm": {"sha256": "%s", "bytes": 1}}}' % ("0" * 64), "below the directory"),
        ('{"files": {"a": {"sha256": "0", "bytes": 1}}}', "sha256"),
        ('{"files": {"a": {"sha256": "%s", "bytes": -1}}}' % ("0" * 64), "bytes"),
        ('{"version": 2, "files": {}}', "version"),
    ],
)
def test_a_manifest_that_can_not_be_trusted_is_refused(tmp_path: Path, text: str, fact: str) -> None:
    """Paths that lead out of the directory or mean something to a shell, and anything that is no manifest."""
    (tmp_path / MANIFEST).write_text(text)
    assert fact in refused(tmp_path)


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    """No folder, a file in its place, an empty folder: each is said, and none is made."""
    assert "no folder" in refused(tmp_path / "none")
    (tmp_path / "file").write_text("")
    assert "no folder" in refused(tmp_path / "file") or "Not a directory" in refused(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert f"no {MANIFEST}" in refused(tmp_path / "empty")
    assert not list((tmp_path / "empty").iterdir())


def test_sealing_again_writes_nothing(tmp_path: Path) -> None:
    """A manifest that would be the same stays the same file, and one folder is sealed without blessing the others."""
    filled(tmp_path, WHEEL, *KUBERNETES)
    before = (tmp_path / MANIFEST).stat()
    store.seal(tmp_path, quiet)
    assert (tmp_path / MANIFEST).stat().st_ino == before.st_ino
    alter(tmp_path / WHEEL)
    alter(tmp_path / KUBERNETES[0])
    store.seal(tmp_path, quiet, KUBERNETES_BIN)
    store.refuse_unusable(spec(tmp_path, Software.KUBERNETES))
    assert "altered" in refused(tmp_path, Software.RAY)


@pytest.mark.parametrize("name", ["a b", "-rf", "x;y", "ä", "a\nb"])
def test_a_name_that_a_shell_could_misread_is_not_sealed(tmp_path: Path, name: str) -> None:
    """Such a name would go through shells on nodes; hidden files are left out."""
    (tmp_path / name).write_text("")
    (tmp_path / ".hidden").write_text("")
    with pytest.raises(SpecError, match="can't go into a manifest"):
        store.seal(tmp_path, quiet)


def test_verify_shows_every_problem(tmp_path: Path) -> None:
    """`artifacts verify` lists missing, altered and unlisted files, exits with 2, and with 0 where there is none."""
    filled(tmp_path, WHEEL, *KUBERNETES)
    assert CliRunner().invoke(app, ["artifacts", "verify", str(tmp_path)]).exit_code == 0
    (tmp_path / WHEEL).unlink()
    alter(tmp_path / KUBERNETES[0])
    (tmp_path / "more").write_text("")
    result = CliRunner().invoke(app, ["artifacts", "verify", str(tmp_path), "--json"])
    assert result.exit_code == 2
    problems = {one["path"]: one["fact"] for one in json.loads(result.stdout)["problems"]}
    assert problems.keys() == {WHEEL, KUBERNETES[0], "more"}
    assert problems[WHEEL] == "missing"
    assert problems["more"] == "not in the manifest"
    assert CliRunner().invoke(app, ["artifacts", "seal", str(tmp_path)]).exit_code == 0
    assert CliRunner().invoke(app, ["artifacts", "verify", str(tmp_path)]).exit_code == 0


def test_the_spec_names_the_directory_beside_itself(tmp_path: Path) -> None:
    """`artifacts:` is relative to the spec file, as other paths there."""
    (tmp_path / "cluster.yaml").write_text("name: demo\nartifacts: files\n")
    assert load(tmp_path / "cluster.yaml").artifacts == str(tmp_path / "files")


def test_a_manifest_knows_what_is_below_a_folder() -> None:
    """By whole names of folders."""
    entry = {"sha256": "0" * 64, "bytes": 1}
    manifest = Manifest.model_validate({"files": {"a/b/c": entry, "a/bc": entry, "a/b/a": entry}})
    assert list(manifest.below("a/b")) == ["a/b/a", "a/b/c"]
