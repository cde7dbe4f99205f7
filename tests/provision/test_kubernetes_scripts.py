"""Kubernetes' scripts on a node of its owner's, in a real shell with the system's folders in one of the test."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runcrate_iac import paths
from runcrate_iac.machines.local.container import tree
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.model.versions import KUBERNETES
from runcrate_iac.render import render

IMAGE = paths.cache_dir() / "images" / tree.key() / "root"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n"
SILENT = "keep() { :; }; packages() { :; }; install_packages() { :; }\n"
"""What is not to be tried here."""


def network() -> NetworkPlan:
    """Two machines with simulated GPUs."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}", gpus_simulated=True) for i in range(2)])


def shell(root: Path, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script of a deploy on a machine with its folders below ``root``."""
    for folder in ("/etc/", "/var/lib/"):
        text = text.replace(folder, f"{root}{folder}")
    for program in ("apt-mark", "dpkg-query"):
        (root / program).unlink(missing_ok=True)
        (root / program).symlink_to("/bin/true")
    text = f"{render('shell/lib.sh')}\nPATH={root}:$PATH\n{text}"
    return subprocess.run(["sh", "-s"], input=text, env=env, capture_output=True, text=True, check=False)


def prepare(root: Path, index: int, before: str = "") -> subprocess.CompletedProcess[str]:
    """What the deploy does before it installs packages."""
    node = network().nodes[index]
    text = render("kubernetes/prepare.sh.j2", node=node, packages={}, gpu_runtime="/none", version=KUBERNETES)
    return shell(root, f"{before}{SILENT}mkdir -p /etc\n{text[: text.index('. /etc/os-release')]}")


@pytest.mark.parametrize("index", [0, 1])
def test_the_etcd_of_a_machines_owner_is_never_taken_for_ours(tmp_path: Path, index: int) -> None:
    """Its data keep a machine from being the head, and are left alone on a worker (C22)."""
    data = tmp_path / "var/lib/etcd/member"
    data.mkdir(parents=True)
    done = prepare(tmp_path, index)
    assert (done.returncode, "has the data of an etcd in" in done.stderr) == ((1, True) if index == 0 else (0, False))
    reset = render("kubernetes/reset.sh.j2", node=network().nodes[1])
    done = shell(
        tmp_path, f'kubeadm() {{ :; }}; nft() {{ return 1; }}; timeout() {{ echo "$*"; }}\n{reset}\nreset_kubernetes'
    )
    assert (done.returncode, data.is_dir()) == (0, True), done.stderr


KUBELETS = """
for table in filter nat mangle; do iptables -t $table -N KUBE-KUBELET-CANARY; done
ip6tables -t mangle -N KUBE-KUBELET-CANARY
iptables -N KUBE-FIREWALL
iptables -A INPUT -j KUBE-FIREWALL
iptables -A INPUT -p tcp --dport 99 -m comment --comment "of the owner" -j ACCEPT
iptables -P FORWARD DROP
"""
"""What a kubelet leaves beside a rule and a policy of the machine's owner."""


@pytest.mark.skipif(os.geteuid() != 0 or not IMAGE.is_dir(), reason="needs root and our container image")
def test_the_kubelets_chains_go_and_the_owners_rules_stay() -> None:
    """What kubeadm leaves of them in iptables is gone after a reset, in a network of the test's own (C22)."""
    reset = render("kubernetes/reset.sh.j2", node=network().nodes[1])
    calls = "kubeadm() { :; }; timeout() { :; }; rm() { :; }\n"
    script = (
        f"set -eu\nPATH=/usr/sbin:/usr/bin\n{KUBELETS}{calls}{reset}\nreset_kubernetes\niptables-save\nip6tables-save\n"
    )
    command = ["unshare", "--net", "chroot", str(IMAGE), "sh", "-s"]
    left = subprocess.run(command, input=script, check=True, capture_output=True, text=True).stdout
    assert "KUBE-" not in left
    assert "*filter" in left
    assert "*mangle" not in left
    assert ":FORWARD DROP" in left
    assert [line for line in left.splitlines() if line.startswith("-A")] == [
        '-A INPUT -p tcp -m tcp --dport 99 -m comment --comment "of the owner" -j ACCEPT'
    ]


@pytest.mark.parametrize(("runs", "goes_on"), [("1.37.0", True), ("1.36.9", False), ("1.38.0", False)])
def test_a_cluster_of_another_minor_version_is_left_as_it_is(tmp_path: Path, runs: str, goes_on: bool) -> None:
    """Kubelets newer than their control plane are not supported by upstream (C6)."""
    (tmp_path / "etc/kubernetes").mkdir(parents=True)
    (tmp_path / "etc/runcrate").mkdir()
    for file in ("kubernetes/runcrate", "runcrate/kubernetes"):
        (tmp_path / "etc" / file).touch()
    done = prepare(tmp_path, 1, f"kubelet() {{ echo Kubernetes v{runs}; }}\n")
    assert done.returncode == (0 if goes_on else 1), done.stderr
    assert (f"node-1 runs Kubernetes v{runs}, and" in done.stderr) is not goes_on


class Upstream(BaseHTTPRequestHandler):
    """Answers as upstream does: by the way to a mirror that has the key."""

    def do_GET(self) -> None:
        """A redirect, and what it leads to."""
        if self.path == "/mirror":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(KEY.encode())
        else:
            self.send_response(302)
            self.send_header("Location", "/mirror")
            self.end_headers()
            self.wfile.write(b"Found")

    def log_message(self, *words: object) -> None:
        """No news."""


@pytest.fixture
def upstream() -> Iterator[str]:
    """Its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def binaries(url: str) -> str:
    """The way without artifacts, on a worker, from this server; nothing is installed."""
    text = render("kubernetes/upstream.sh.j2", version=KUBERNETES, is_head=False).replace("https://pkgs.k8s.io", url)
    return f'systemctl() {{ echo "systemctl $*"; }}\n{SILENT}{text}'


def test_the_key_of_packages_is_fetched_where_a_redirect_leads(tmp_path: Path, upstream: str) -> None:
    """The key, and not the text of the redirect; what was taken for one is fetched again (C6)."""
    (key := tmp_path / "etc/apt/keyrings/kubernetes.asc").parent.mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list.d").mkdir()
    key.write_text("Found")
    for told in (["name_source", "install_kubernetes"], ["install_kubernetes"]):
        done = shell(tmp_path, binaries(upstream))
        assert (done.returncode, done.stdout.split()) == (0, told), done.stderr
        assert key.read_text() == KEY


def test_a_source_that_the_owner_has_named_is_the_only_one(tmp_path: Path, upstream: str) -> None:
    """Apt refuses two sources of one address with different keys, and does nothing at all then (C22)."""
    (sources := tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    minor = KUBERNETES.rpartition(".")[0]
    (sources / "kubernetes.list").write_text(f"deb [signed-by=/k.gpg] {upstream}/core:/stable:/v{minor}/deb/ /\n")
    done = shell(tmp_path, binaries(upstream))
    assert (done.returncode, done.stdout.split()) == (0, ["install_kubernetes"]), done.stderr
    assert [file.name for file in sources.iterdir()] == ["kubernetes.list"]


def test_images_are_fetched_by_the_sites_proxy(tmp_path: Path, upstream: str) -> None:
    """Containerd is told of the proxy that logins have, in a file of root's only, and of its end (C6, X4)."""
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    proxy = {"HTTPS_PROXY": "http://me:100%25@proxy:3128", "no_proxy": "127.0.0.1"}
    done = shell(tmp_path, binaries(upstream), **proxy)
    own = tmp_path / "etc/systemd/system/containerd.service.d/runcrate-proxy.conf"
    told = 'Environment="HTTPS_PROXY=http://me:100%%25@proxy:3128"\nEnvironment="no_proxy=127.0.0.1"\n'
    assert (own.read_text(), own.stat().st_mode & 0o777) == (f"[Service]\n{told}", 0o600), done.stderr
    assert "proxy:3128" not in done.stdout + done.stderr
    assert "systemctl" not in shell(tmp_path, binaries(upstream), **proxy).stdout
    assert "systemctl restart containerd.service" in shell(tmp_path, binaries(upstream)).stdout
    assert not own.exists()


@pytest.mark.parametrize(
    "path", sorted((paths.bundled("templates") / "kubernetes").glob("*.sh.j2")), ids=lambda p: p.name
)
def test_no_proxy_stands_between_a_node_and_its_cluster(path: Path) -> None:
    """Scripts of logins that call kubeadm or kubectl do so without the site's proxy (C6)."""
    lines = path.read_text().splitlines()
    calls = any(line.lstrip().startswith(("kubeadm ", "kubectl ", "patient kube", "nodes=$(kubectl")) for line in lines)
    if calls and lines[0] != "#!/bin/sh":  # else a service's
        assert '{% include "kubernetes/direct.sh" %}' in lines
