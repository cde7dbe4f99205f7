"""Packages on the node, in a real shell with a package manager that does what is written here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runcrate_iac.model.network import Machine, plan
from runcrate_iac.model.packages import PACKAGES
from runcrate_iac.render import render

APT = """#!/bin/sh
[ ! -e {root}/broken ] || { echo 'E: dpkg was interrupted' >&2; exit 100; }
for word; do last=$word; done
echo "$last" >> {root}/installed
"""
DPKG = """#!/bin/sh
case $* in
  *--audit*) cat {root}/broken 2> /dev/null ;;
  *--configure*) rm {root}/broken ;;
esac
"""
QUERY = """#!/bin/sh
case $* in
  *containerd.io) [ ! -e {root}/docker ] || printf installed ;;
  *) for word; do echo "asked $word" >> {root}/asked; done ;;
esac
"""


def shell(root: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the join with that package manager."""
    for name, program in {"apt-get": APT, "dpkg": DPKG, "dpkg-query": QUERY}.items():
        (root / name).write_text(program.replace("{root}", str(root)))
        (root / name).chmod(0o755)
    text = f"{render('shell/lib.sh')}\nPATH={root}:$PATH\n{text}"
    return subprocess.run(["sh", "-s"], input=text, capture_output=True, text=True, check=False)


def test_an_installation_that_a_power_cut_broke_off_is_completed(tmp_path: Path) -> None:
    """What dpkg had begun is configured first, then the packages are installed (F8, C9)."""
    (tmp_path / "broken").write_text("The following packages are only half configured\n")
    done = shell(tmp_path, "packages munge\n")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "installed").read_text() == "munge\n"


@pytest.mark.parametrize("docker", [False, True])
def test_the_container_runtime_of_docker_stays(tmp_path: Path, docker: bool) -> None:
    """Where Docker's own containerd is, the distribution's, which it conflicts with, is not asked for (C6)."""
    if docker:
        (tmp_path / "docker").touch()
    (node,) = plan([Machine(index=0, id="m0", host="192.0.2.1", gpus_simulated=True)]).nodes
    packages = {"trixie": PACKAGES["trixie"].kubernetes}
    text = render("kubernetes/prepare.sh.j2", node=node, packages=packages, gpu_runtime="/none", version="1.37.2")
    text = text[text.index(". /etc/os-release") :].replace(". /etc/os-release", "VERSION_CODENAME=trixie")
    done = shell(tmp_path, text)
    assert done.returncode == 0, done.stderr
    asked = {line.removeprefix("asked ") for line in (tmp_path / "asked").read_text().splitlines()}
    assert asked >= {"containernetworking-plugins", "conntrack", "ethtool", "socat"}
    assert ({"containerd", "runc"} & asked == set()) is docker
