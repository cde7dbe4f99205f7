"""Kubernetes from Go modules: its programs, and the images that kubeadm asks for.

Where the official files are in reach, take those instead (docs/artifacts.md). `k8s.io/kubernetes` can't be installed as
it is, because its go.mod points to folders that are not in the module; gomod/kubernetes points to the modules of the
same release. kube-proxy calls `nft`, which comes from the distribution, and busybox with it for pods that try things.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from pathlib import Path

from runcrate_iac.artifacts import store
from runcrate_iac.artifacts.build.archive import Image, write
from runcrate_iac.engine import gomodule
from runcrate_iac.machines.local import image, mmdebstrap, tools
from runcrate_iac.machines.local.cache import made_once
from runcrate_iac.model.artifacts import KUBERNETES_BIN, KUBERNETES_FOLDER, KUBERNETES_IMAGES
from runcrate_iac.model.progress import Report
from runcrate_iac.model.versions import KUBERNETES
from runcrate_iac.paths import cache_dir

TOOLS_IMAGE = "runcrate.local/tools:1"
"""An image for pods that try things out: busybox."""

_LAYOUT = 1
"""Raised when what is made changes for a reason that is not among the inputs of :func:`key`."""
GOMOD = Path(__file__).parent / "gomod"
_REGISTRY = "registry.k8s.io"
_COMMANDS = "k8s.io/kubernetes/cmd"
_NODE = ("kubeadm", "kubelet", "kubectl")
_CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""One program and one image of three names: gomod/kubernetes/main.go."""
_OTHERS = {
    "etcd": ("go.etcd.io/etcd/server/v3", "/usr/local/bin/etcd", "etcd:3.7.0-0"),
    "coredns": ("github.com/coredns/coredns", "/coredns", "coredns/coredns:v1.14.6"),
    "pause": ("runcrate/pause", "/pause", "pause:3.10.2"),
}
"""Go module: its package, the program's path in the image, and the image that kubeadm of this version asks for."""
_PACKAGES = ("base-files", "busybox-static", "nftables")
_APPLETS = (
    "awk basename cat chmod cp cut date dd df dirname du env false find free grep head hostname httpd id ip kill ln ls "
    "md5sum mkdir mount mv nc nproc nslookup ping ps pwd readlink rm rmdir sed seq sh sha256sum sleep sort stat sync "
    "tail tar tee telnet test timeout touch tr true uname uniq vi wc wget xargs"
)


def key() -> str:
    """The name of what is made of these inputs."""
    modules = {str(file.relative_to(GOMOD)): file.read_text() for file in sorted(GOMOD.rglob("*")) if file.is_file()}
    inputs = [_LAYOUT, KUBERNETES, _NODE, _CONTROL_PLANE, _OTHERS, _PACKAGES, _APPLETS, image.SUITE, modules]
    return f"kubernetes-{KUBERNETES}-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:12]}"


def made(report: Report) -> Path:
    """An artifact directory with all of it in the cache, built where that lacks it: ten minutes of two cores, 0.6 GB.

    Raises :class:`~runcrate_iac.errors.ToolMissing` without Go or mmdebstrap, :class:`~runcrate_iac.errors.Failed` with
    the last lines of what failed.
    """
    folder = cache_dir() / "artifacts" / key()
    if not folder.exists():
        tools.require(("mmdebstrap", *(("newuidmap",) if os.geteuid() else ())))
        made_once(folder, lambda part: _make(part, report), f"Kubernetes {KUBERNETES}", report)
    return folder


def _make(part: Path, report: Report) -> None:
    programs, binaries, images = part / "programs", part / KUBERNETES_BIN, part / KUBERNETES_IMAGES
    for folder in (programs, binaries, images):
        folder.mkdir(parents=True)
    base = _distribution(part, report)
    _programs(programs, report)
    for name in _NODE:
        (programs / name).rename(binaries / name)
    for one in _images(programs, base):
        report(f"writing the image {one.references[0]}", None)
        write(one, images / f"{one.program.name}.tar")
    shutil.rmtree(programs)
    for extra in (base, part / mmdebstrap.LOG):
        extra.unlink()
    store.seal(part, report, KUBERNETES_FOLDER)
    os.sync()


def _programs(into: Path, report: Report) -> None:
    flags = {
        f"{package}.{name}": value
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        for name, value in _version().items()
    }
    with gomodule.opened(GOMOD / "kubernetes", f"Kubernetes {KUBERNETES}", report, target=_NODES) as module:
        for name in (*_NODE, "kube-proxy"):
            module.build(f"{_COMMANDS}/{name}", into / name, flags)
        module.build(".", into / "kube-control-plane", flags)
    for name, (package, _, reference) in _OTHERS.items():
        with gomodule.opened(GOMOD / name, reference, report, target=_NODES) as module:
            module.build(package, into / name)


_NODES = {"GOOS": "linux", "GOARCH": "amd64"}


def _version() -> dict[str, str]:
    """What the programs say of themselves; kubeadm compares it with the version that it is told to install."""
    major, minor, _ = KUBERNETES.split(".")
    return {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}


def _images(programs: Path, base: Path) -> list[Image]:
    tools = programs / "tools"
    with tarfile.open(base) as packages, tools.open("wb") as target:
        content = packages.extractfile("./usr/bin/busybox")
        if content is not None:
            shutil.copyfileobj(content, target)
    first, *others = (f"/usr/local/bin/{name}" for name in _CONTROL_PLANE)
    names = tuple(f"{_REGISTRY}/{name}:v{KUBERNETES}" for name in _CONTROL_PLANE)
    proxy = (f"{_REGISTRY}/kube-proxy:v{KUBERNETES}",)
    return [
        Image(names, programs / "kube-control-plane", first, links=dict.fromkeys(others, first)),
        Image(proxy, programs / "kube-proxy", "/usr/local/bin/kube-proxy", base),
        *(Image((f"{_REGISTRY}/{name}",), programs / key, path) for key, (_, path, name) in _OTHERS.items()),
        Image((TOOLS_IMAGE,), tools, "/bin/busybox", links={f"/bin/{name}": "busybox" for name in _APPLETS.split()}),
    ]


def _distribution(folder: Path, report: Report) -> Path:
    """A tar of what distribution packages contain, unpacked and not set up."""
    base = folder / "packages.tar"
    words = ["mmdebstrap", mmdebstrap.mode(), "--variant=extract", f"--include={','.join(_PACKAGES)}"]
    mmdebstrap.run([*words, image.SUITE, str(base)], folder, "packages of kube-proxy's image", report)
    return base
