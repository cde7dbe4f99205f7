"""The look at a machine before anything is changed, in a real shell on this computer."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from runcrate_iac.model.network import Machine, plan
from runcrate_iac.model.spec import ClusterSpec, Software
from runcrate_iac.provision.facts import Facts, parse
from runcrate_iac.render import render


def look(*, port: int = 51820, software: Software = Software.NONE, moved: dict[str, str] | None = None) -> Facts:
    """What this computer tells of itself as a machine; ``moved`` are paths of it that are somewhere else."""
    nodes = plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}", gpus_simulated=True) for i in range(2)])
    nodes = nodes.model_copy(update={"port": port})
    spec = ClusterSpec(name="demo").model_copy(update={"software": software})
    values = {"node": nodes.head, "plan": nodes, "spec": spec}
    text = render("checks/preflight.sh.j2", shared_folder=True, **values)
    for old, new in ({"/usr/local/lib/runcrate/": "/nowhere/"} | (moved or {})).items():
        text = text.replace(old, new)
    done = subprocess.run(["sh", "-s"], input=text, capture_output=True, text=True, check=True)
    facts = parse(done.stdout.splitlines(), now=0.0)
    assert facts is not None
    return facts


def test_a_port_that_is_in_use_is_seen() -> None:
    """A socket at the cluster's UDP port is seen as long as it is open (C8)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert look(port=port).port_taken
    assert not look(port=port).port_taken


def test_a_node_is_not_asked_for_its_port() -> None:
    """On a machine that was a node before, the port is its own WireGuard's (C8)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        facts = look(port=taken.getsockname()[1], moved={"/nowhere/mesh": os.devnull})
    assert (facts.joined, facts.port_taken) == (True, False)


def test_the_login_users_number_is_told() -> None:
    """By which files in /shared and jobs of Slurm are its own on every node (C1)."""
    assert look().uid == str(os.getuid())


def test_exports_in_files_of_their_own_are_seen(tmp_path: Path) -> None:
    """What others export by a file in /etc/exports.d is seen like a line of /etc/exports; ours is not (C9)."""
    folder = tmp_path / "exports.d"
    folder.mkdir()
    for name in ("site", "runcrate"):
        (folder / f"{name}.exports").write_text(f"# Comment\n/{name} *(rw)\n")
    assert look(moved={"/etc/exports": f"{tmp_path}/exports"}).exports == ("/site",)
    (tmp_path / "exports").write_text("/home *(ro)\n")
    assert look(moved={"/etc/exports": f"{tmp_path}/exports"}).exports == ("/home", "/site")


def test_the_databases_of_others_are_seen_while_they_are_served(tmp_path: Path) -> None:
    """A server that runs on a head of Slurm and has more than the server's own folders is in use (C9)."""
    moved = {"/sys/fs/cgroup/system.slice": str(tmp_path), "/var/lib/mysql": f"{tmp_path}/data"}
    for name in ("mysql", "performance_schema", "sys", "#innodb_redo", "slurm_acct_db", "shop"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "data/ibdata1").touch()
    assert look(software=Software.SLURM, moved=moved).databases == ()
    (tmp_path / "mariadb.service").mkdir()
    assert look(software=Software.SLURM, moved=moved).databases == ("shop",)
    assert look(software=Software.RAY, moved=moved).databases == ()


def test_another_ray_is_seen_by_its_sockets(tmp_path: Path) -> None:
    """A session in /tmp/ray with an open socket is a Ray that runs; one that has ended is none (C9)."""
    session = tmp_path / "session_1"
    session.mkdir()
    moved = {"/tmp/ray": str(tmp_path)}  # noqa: S108 - what is moved
    with socket.socket(socket.AF_UNIX) as raylet:
        raylet.bind(str(session / "raylet"))
        assert look(software=Software.RAY, moved=moved).ray
        assert not look(software=Software.SLURM, moved=moved).ray
    assert (session / "raylet").exists()
    assert not look(software=Software.RAY, moved=moved).ray
