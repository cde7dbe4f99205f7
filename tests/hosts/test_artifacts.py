"""What `artifacts build kubernetes` makes, once on this computer, is what kubeadm asks for."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from runcrate_iac.artifacts import store
from runcrate_iac.model.artifacts import KUBERNETES_BIN, KUBERNETES_IMAGES
from runcrate_iac.model.spec import ClusterSpec, Software
from runcrate_iac.model.versions import KUBERNETES
from tests.artifacts import directory

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def artifacts() -> Path:
    """The directory, from the cache or built now."""
    return directory()


def names(archive: Path) -> list[str]:
    """The images in an archive."""
    with tarfile.open(archive) as content:
        manifest = content.extractfile("manifest.json")
        assert manifest
        return [name for image in json.load(manifest) for name in image["RepoTags"]]


def test_kubeadm_finds_every_image_that_it_wants(artifacts: Path) -> None:
    """The archives have the images that this kubeadm lists for its own version, under these names and no others."""
    kubeadm = artifacts / KUBERNETES_BIN / "kubeadm"
    assert subprocess.check_output([kubeadm, "version", "-o", "short"], text=True) == f"v{KUBERNETES}\n"
    wanted = subprocess.check_output(
        [kubeadm, "config", "images", "list", f"--kubernetes-version=v{KUBERNETES}"], text=True
    ).split()
    archives = sorted((artifacts / KUBERNETES_IMAGES).iterdir())
    found = [name for archive in archives for name in names(archive)]
    assert sorted(found) == sorted([*wanted, "runcrate.local/tools:1"])


def test_what_is_built_is_taken(artifacts: Path) -> None:
    """The directory in the cache is a whole artifact directory, and its programs are static."""
    store.refuse_unusable(
        ClusterSpec(name="demo", provider="given", software=Software.KUBERNETES, artifacts=str(artifacts))
    )
    for program in (artifacts / KUBERNETES_BIN).iterdir():
        assert program.stat().st_mode & 0o111
        assert b"/lib64/ld-linux" not in program.read_bytes()[:4096]
