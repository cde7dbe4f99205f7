"""What fills an artifact directory: images without an engine, programs from Go modules, wheels of the nodes' Python."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runcrate_iac.artifacts import store
from runcrate_iac.artifacts.build import kubernetes
from runcrate_iac.artifacts.build.archive import Image, write
from runcrate_iac.cli.app import app
from runcrate_iac.engine import gomodule
from runcrate_iac.errors import Failed, SpecError
from runcrate_iac.model.artifacts import KUBERNETES_FOLDER, MANIFEST, RAY_WHEELS
from runcrate_iac.model.spec import ClusterSpec, Software
from runcrate_iac.model.versions import KUBERNETES, RAY

WHEEL = f"ray-{RAY}-cp313-cp313-manylinux2014_x86_64.whl"


def quiet(_message: str, _node: str | None) -> None:
    """Report to nobody."""


def packages(folder: Path) -> Path:
    """A tar as mmdebstrap writes it: with devices, documentation, times, and folders in no order."""
    path = folder / "packages.tar"
    with tarfile.open(path, "w") as tar:
        for name, kind, target in (
            ("./usr/sbin/nft", tarfile.REGTYPE, ""),
            ("./usr", tarfile.DIRTYPE, ""),
            ("./dev/null", tarfile.CHRTYPE, ""),
            ("./usr/share/doc/nft", tarfile.REGTYPE, ""),
            ("./sbin", tarfile.SYMTYPE, "usr/sbin"),
            ("./usr/sbin/nft2", tarfile.LNKTYPE, "./usr/sbin/nft"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mtime, info.uid = kind, target, 123, 1000
            info.size = 3 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"nft"))
    return path


def test_an_image_archive_is_whole_and_always_the_same(tmp_path: Path) -> None:
    """Names, configuration, and one layer of the checksum it says: program, links, and what packages brought."""
    (tmp_path / "kube").write_bytes(b"program")
    base = packages(tmp_path)
    image = Image(
        ("r/a:1", "r/b:1"), tmp_path / "kube", "/usr/local/bin/a", base, {"/usr/local/bin/b": "/usr/local/bin/a"}
    )
    write(image, tmp_path / "one.tar")
    (tmp_path / "kube").touch()
    write(image, tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {"kube", "packages.tar", "one.tar", "two.tar"}
    with tarfile.open(tmp_path / "one.tar") as archive:
        content = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    (manifest,) = json.loads(content["manifest.json"])
    assert manifest["RepoTags"] == ["r/a:1", "r/b:1"]
    config = content[manifest["Config"]]
    assert manifest["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    (layer,) = (content[name] for name in manifest["Layers"])
    settings = json.loads(config)
    assert settings["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert settings["config"]["Entrypoint"] == ["/usr/local/bin/a"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        members = {member.name: member for member in files}
        assert files.extractfile("usr/sbin/nft2").read() == b"nft"  # type: ignore[union-attr]
    assert list(members) == [
        *("sbin", "usr", "usr/sbin/nft", "usr/sbin/nft2"),
        *("tmp", "usr/local", "usr/local/bin", "usr/local/bin/a", "usr/local/bin/b"),
    ]
    assert members["usr/local/bin/a"].mode == 0o755
    assert members["usr/local/bin/b"].linkname == "/usr/local/bin/a"
    assert {(member.mtime, member.uid) for member in members.values()} == {(0, 0)}


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A Go module of one program that prints a variable."""
    if gomodule.find_go() is None:
        pytest.skip("this computer has no Go")
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module example.test/tiny\n\ngo 1.21\n")
    program = 'package main\n\nimport "os"\n\nvar version = "none"\n\nfunc main() { os.Stdout.WriteString(version) }\n'
    (folder / "main.go").write_text(program)
    return folder


def test_a_program_is_built_from_its_module(module: Path, tmp_path: Path) -> None:
    """With its version in it, telling what it does, and the same bytes from another folder and time."""
    said: list[str] = []
    for name in ("one", "two"):
        with gomodule.opened(module, "Tiny", lambda message, _node: said.append(message)) as opened:
            opened.build(".", tmp_path / name, {"main.version": "1.2.3"})
    assert subprocess.check_output([tmp_path / "one"], text=True) == "1.2.3"
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert any("building one" in message for message in said)


def test_a_program_that_does_not_compile_says_so(module: Path, tmp_path: Path) -> None:
    """The error has the compiler's words, and no program is left."""
    (module / "main.go").write_text("package main\n\nfunc main() { nonsense }\n")
    with gomodule.opened(module, "Tiny", quiet) as opened, pytest.raises(Failed, match="nonsense"):
        opened.build(".", tmp_path / "program")
    assert not (tmp_path / "program").exists()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pip's only index is a folder with a wheel of the pinned Ray, for the nodes' Python and not for this one."""
    folder = tmp_path / "index"
    folder.mkdir()
    information = f"ray-{RAY}.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(
            f"{information}/METADATA", f"Metadata-Version: 2.1\nName: ray\nVersion: {RAY}\nProvides-Extra: default\n"
        )
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nTag: cp313-cp313-manylinux2014_x86_64\n")
        wheel.writestr(f"{information}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def build(directory: Path, software: str = "ray") -> None:
    """`runcrate-iac artifacts build`."""
    result = CliRunner().invoke(app, ["artifacts", "build", software, str(directory)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output


def test_a_directory_is_filled_once(index: Path, tmp_path: Path) -> None:
    """The wheels of the pinned version are sealed; the second run changes nothing, and what got lost comes back."""
    directory = tmp_path / "artifacts"
    build(directory)
    store.refuse_unusable(ClusterSpec(name="demo", provider="given", software=Software.RAY, artifacts=str(directory)))
    wheel, manifest = directory / RAY_WHEELS / WHEEL, directory / MANIFEST
    before = [(file.stat().st_ino, file.stat().st_mtime_ns) for file in (wheel, manifest)]
    build(directory)
    assert [(file.stat().st_ino, file.stat().st_mtime_ns) for file in (wheel, manifest)] == before
    wheel.unlink()
    build(directory)
    assert wheel.read_bytes() == (index / WHEEL).read_bytes()


def test_a_build_that_fails_leaves_no_half(index: Path, tmp_path: Path) -> None:
    """Pip's words are in the error, and there is no manifest; a file in the directory's place is refused."""
    (index / WHEEL).unlink()
    with pytest.raises(Failed, match=f"ray.*=={RAY}"):
        build(tmp_path / "artifacts")
    assert not (tmp_path / "artifacts" / MANIFEST).exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="no folder"):
        build(tmp_path / "file")


def test_kubernetes_is_copied_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built once fills any directory, and an altered copy is made good."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "cache/runcrate-iac/artifacts" / kubernetes.key() / KUBERNETES_FOLDER
    for path in ("bin/kubeadm", "bin/kubelet", "bin/kubectl", "images/pause.tar"):
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(path)
    directory = tmp_path / "artifacts"
    build(directory, "kubernetes")
    copy = directory / KUBERNETES_FOLDER / "bin/kubeadm"
    assert copy.read_text() == "bin/kubeadm"
    copy.write_text("altered")
    build(directory, "kubernetes")
    assert copy.read_text() == "bin/kubeadm"


def test_the_modules_name_the_pinned_version() -> None:
    """go.mod and the pin agree, staging modules included, so that raising one alone is found out."""
    module = (kubernetes.GOMOD / "kubernetes/go.mod").read_text()
    assert f"require k8s.io/kubernetes v{KUBERNETES}\n" in module
    replaced = [line.split() for line in module.splitlines() if " => " in line]
    assert len(replaced) > 30
    assert {(words[0], words[-1]) for words in replaced} == {
        (words[2], f"v0.{KUBERNETES.partition('.')[2]}") for words in replaced
    }
