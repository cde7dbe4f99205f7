"""Artifacts on nodes, over real SSH on loopback: only what differs, checked where it arrives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runcrate_iac.artifacts import store
from runcrate_iac.model.conditions import broken
from runcrate_iac.model.progress import Outcome
from runcrate_iac.provision.job import Job
from tests.provision.conftest import Loopback
from tests.provision.test_worker import outcome, work

SMALL, LARGE, EMPTY = "ray/wheels/a-1.0+cpu.whl", "kubernetes/images/pause.tar", "kubernetes/bin/none"


class Nodes:
    """Two nodes with noisy shells, and an artifact directory of three files."""

    def __init__(self, job: Job, folder: Path) -> None:
        """The directory is sealed, and on no node."""
        self.directory, self.folder = folder / "artifacts", folder
        for path, content in ((SMALL, b"a\nb"), (LARGE, bytes(range(256)) * 4099), (EMPTY, b"")):
            file = self.directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        store.seal(self.directory, lambda _message, _node: None)
        self.job = job.model_copy(update={"spec": job.spec.model_copy(update={"artifacts": str(self.directory)})})

    def place(self) -> tuple[Outcome, dict[str, list[str]]]:
        """Bring the files to the nodes: how it ended, and per node the files that differed."""
        _, lines, log = work(self.job, "probe.place")
        differed = {
            line.event.node: [path for path in (SMALL, LARGE, EMPTY) if path in line.event.message]
            for line in lines
            if line.event and line.event.node and line.event.message.startswith("differed: ")
        }
        assert "Traceback" not in log or not outcome(lines).ok, log
        return outcome(lines), differed

    def on(self, node: str, path: str) -> Path:
        """A file as it is on a node."""
        return self.folder / node / path


@pytest.fixture
def nodes(loopback: Loopback, job: Callable[..., Job], tmp_path: Path) -> Nodes:
    """Two nodes and a directory."""
    noisy = loopback.server(noise="Welcome\n\x1b[0m")
    return Nodes(job([noisy, loopback.server()], seconds=120), tmp_path)


def test_only_what_differs_is_brought(nodes: Nodes) -> None:
    """Every node gets the files with their mode, whatever its shell prints; later only what was changed there (F29)."""
    ended, differed = nodes.place()
    assert ended.ok
    everything = [SMALL, LARGE, EMPTY]
    assert differed == {"node-0": everything, "node-1": everything}
    for node in ("node-0", "node-1"):
        for path in everything:
            assert nodes.on(node, path).read_bytes() == (nodes.directory / path).read_bytes()
            assert nodes.on(node, path).stat().st_mode & 0o777 == 0o755
    nodes.on("node-1", LARGE).write_bytes(b"altered")
    nodes.on("node-0", SMALL).chmod(0o600)
    ended, differed = nodes.place()
    assert (ended.ok, differed) == (True, {"node-0": [SMALL], "node-1": [LARGE]})
    assert nodes.on("node-1", LARGE).read_bytes() == (nodes.directory / LARGE).read_bytes()


@pytest.mark.parametrize("content", [b"z\nb", b"a", b"longer than before"])
def test_a_file_altered_after_its_seal_gets_to_no_node(nodes: Nodes, content: bytes) -> None:
    """The node itself finds the wrong checksum, keeps what it had, and both are named with the remedy."""
    for node in ("node-0", "node-1"):
        nodes.on(node, SMALL).parent.mkdir(parents=True)
        nodes.on(node, SMALL).write_text("old")
    (nodes.directory / SMALL).write_bytes(content)
    ended, _ = nodes.place()
    wrong = {condition.node: condition for condition in broken(list(ended.conditions))}
    assert wrong.keys() == {"node-0", "node-1"}
    for node in ("node-0", "node-1"):
        condition = wrong[node]
        assert SMALL in condition.message
        assert condition.remedy
        assert nodes.on(node, SMALL).read_text() == "old"
        assert not list(nodes.on(node, SMALL).parent.glob("*part"))
