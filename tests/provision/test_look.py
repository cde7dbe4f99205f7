"""The look at a machine before anything is changed, in a real shell on this computer."""

from __future__ import annotations

import os
import socket
import subprocess
from typing import Any

from runcrate_iac.model.network import Machine, plan
from runcrate_iac.provision.facts import Facts, parse
from runcrate_iac.render import render


def look(*, port: int = 51820, moved: dict[str, str] | None = None, **values: Any) -> Facts:
    """What this computer tells of itself as a machine; ``moved`` are paths of it that are somewhere else."""
    nodes = plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}", gpus_simulated=True) for i in range(2)])
    nodes = nodes.model_copy(update={"port": port})
    text = render("checks/preflight.sh.j2", node=nodes.nodes[0], plan=nodes, shared_folder=True, **values)
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
