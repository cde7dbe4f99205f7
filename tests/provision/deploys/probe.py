"""Deploys that show what the worker does with them."""

from __future__ import annotations

from pathlib import Path

from pyinfra import host
from pyinfra.api.deploy import deploy
from pyinfra.operations import python, server

from runcrate_iac.artifacts import store
from runcrate_iac.model.artifacts import Artifact
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.provision import artifacts
from runcrate_iac.provision.context import cluster
from runcrate_iac.provision.findings import found, waiting
from runcrate_iac.provision.remote import File, ask, converge, files


@deploy("Look")
def look() -> None:
    """Read something in prepare, and report it as a condition that holds."""
    here = cluster()
    lines = ask("echo one; echo two")
    condition = Condition(
        type="Looked", status=Status.TRUE, reason="Read", message="+".join(lines), node=here.node.name
    )
    found(condition)


@deploy("Write")
def write() -> None:
    """Keep a file of this node's own, in the folder that the spec's key is named after."""
    here = cluster()
    folder = here.spec.ssh_public_keys[0].split()[-1]
    converge(name="file", text=files(File(f"{folder}/{here.node.name}/file", "it's\n$HOME\n", mode="640")))


@deploy("Place")
def place() -> None:
    """Bring every artifact into this node's own folder, beside the artifact directory."""
    here = cluster()
    directory = Path(here.spec.artifacts or "")
    folder = directory.parent / here.node.name
    wanted = [Artifact(path, f"{folder}/{path}", "755") for path in store.read(directory).files]

    def bring() -> None:
        waiting(host.name, f"differed: {artifacts.place(here, wanted)}")

    python.call(name="bring the artifacts", function=bring)


@deploy("Fail")
def fail() -> None:
    """Fail on node-1 only."""
    server.shell(name="break", commands=["echo no such disk >&2; exit 1" if host.name == "node-1" else "true"])
    server.shell(name="never", commands=["true"])


@deploy("Print")
def shout() -> None:
    """Print to standard output, which is not the deploy's to use."""
    print("not a line of the protocol")


@deploy("Hang")
def hang() -> None:
    """Wait for something that never comes, and say for what."""

    def forever() -> None:
        waiting(host.name, "no handshake with anyone yet")
        ask("sleep 60")

    python.call(name="wait", function=forever)
