"""What machines have before they start: the archive that is brought into their snapshot, and the snapshot's name."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from runcrate_iac.artifacts import store
from runcrate_iac.errors import SpecError
from runcrate_iac.machines.local.preload import load
from runcrate_iac.model.artifacts import KUBERNETES_BIN, KUBERNETES_IMAGES, RAY_WHEELS, Preload, preload
from runcrate_iac.model.spec import Software, parse

FILES = {
    f"{KUBERNETES_BIN}/kubeadm": "kubeadm",
    f"{KUBERNETES_BIN}/kubelet": "kubelet",
    f"{KUBERNETES_BIN}/kubectl": "kubectl",
    f"{KUBERNETES_IMAGES}/etcd.tar": "etcd",
    f"{RAY_WHEELS}/ray-1.whl": "ray",
}


def quiet(_message: str, _node: str | None) -> None:
    """Nobody listens."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A sealed artifact directory."""
    place = tmp_path / "artifacts"
    for path, text in FILES.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    store.seal(place, quiet)
    return place


def test_files_are_where_the_deploys_look_for_them(directory: Path, tmp_path: Path) -> None:
    """The archive has programs that may be run and images for the import, at their places on a node (C6)."""
    load(Preload(software=Software.KUBERNETES, artifacts=str(directory))).write(tmp_path / "tar")
    with tarfile.open(tmp_path / "tar") as tar:
        found = {one.name: (one.mode, tar.extractfile(one).read().decode()) for one in tar}  # type: ignore[union-attr]
    assert found == {
        "usr/local/bin/kubeadm": (0o755, "kubeadm"),
        "usr/local/bin/kubelet": (0o755, "kubelet"),
        "usr/local/bin/kubectl": (0o755, "kubectl"),
        "var/lib/runcrate/images/etcd.tar": (0o644, "etcd"),
    }


@pytest.mark.parametrize("software", [Software.KUBERNETES, Software.RAY])
def test_another_content_is_another_snapshot(directory: Path, software: Software) -> None:
    """A snapshot's name has every file's checksum in it, so that none goes on with old files."""
    wanted = Preload(software=software, artifacts=str(directory))
    before = load(wanted).key
    assert load(wanted).key == before
    path = next(path for path in FILES if path.startswith(software))
    (directory / path).write_text("another")
    store.seal(directory, quiet)
    assert load(wanted).key != before


def test_an_altered_file_is_in_no_snapshot(directory: Path, tmp_path: Path) -> None:
    """A file that changed after it was looked at ends the making, by its name (F32)."""
    wanted = load(Preload(software=Software.RAY, artifacts=str(directory)))
    (directory / RAY_WHEELS / "ray-1.whl").write_text("bad")
    with pytest.raises(SpecError, match=r"ray-1\.whl was altered"):
        wanted.write(tmp_path / "tar")


@pytest.mark.parametrize("software", [Software.KUBERNETES, Software.RAY])
def test_the_script_is_one_for_sh(directory: Path, software: Software) -> None:
    """What runs in the machine is read by a shell without an error."""
    text = load(Preload(software=software, artifacts=str(directory))).script
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def test_nothing_is_preloaded_without_artifacts(directory: Path) -> None:
    """Only software with files in an artifact directory gives machines anything before their start."""
    shape = {"machine": {"cpus": 2, "memory": "2GiB"}}
    assert preload(parse({"name": "a", "software": "slurm", "artifacts": str(directory)})) is None
    assert preload(parse({"name": "a", "software": "ray", **shape})) is None
    given = parse({"name": "a", "software": "ray", "artifacts": str(directory), **shape})
    assert preload(given) == Preload(software=Software.RAY, artifacts=str(directory))
