"""Logging in with a private key that has a passphrase: by a real ssh-agent, over real SSH on loopback."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runcrate_iac.errors import SpecError
from runcrate_iac.machines import identity
from runcrate_iac.model.network import Machine
from runcrate_iac.provision.job import Exit, Job
from tests.provision.conftest import Loopback
from tests.provision.test_worker import outcome, work


@contextlib.contextmanager
def agent_with(keys: list[Path], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A real agent that has these keys, still without a passphrase."""
    address = folder / "agent"
    monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
    with subprocess.Popen(["ssh-agent", "-D", "-a", address], stdout=subprocess.DEVNULL) as agent:
        while not address.exists():
            time.sleep(0.02)
        subprocess.run(["ssh-add", "-q", *keys], check=True)
        yield
        agent.terminate()


def lock(key: Path) -> None:
    """Give the key a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", key], check=True, capture_output=True)


def other_key(folder: Path) -> Path:
    """A key that no machine lets in."""
    key = folder / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    return key


def test_a_key_with_a_passphrase_logs_in_by_the_agent(
    loopback: Loopback, job: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the agent's keys only this one is offered, to all nodes at once, with or without its public file (C2)."""
    todo = job([loopback.server() for _ in range(4)])
    with agent_with([other_key(tmp_path), loopback.identity], tmp_path, monkeypatch):
        lock(loopback.identity)
        loopback.identity.with_suffix(".pub").unlink()
        identity.refuse_unusable([node.machine for node in todo.plan.nodes])
        code, lines, log = work(todo, "probe.look")
    assert (code, outcome(lines).ok) == (Exit.CONVERGED, True), log


def test_a_key_that_cannot_be_used_is_refused_before_anything_is_reserved(
    loopback: Loopback, job: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key with a passphrase that the agent hasn't, and one that is not there, are named with the way out (C8)."""
    servers = [loopback.server(), loopback.server()]
    identity.refuse_unusable(servers)
    with agent_with([other_key(tmp_path)], tmp_path, monkeypatch):
        lock(loopback.identity)
        with pytest.raises(SpecError, match=f"node-0: identity_file: {loopback.identity} has a passphrase") as refused:
            identity.refuse_unusable(servers)
        assert "ssh-add" in refused.value.remedy
        code, lines, _ = work(job(servers), "probe.look")
    assert code == Exit.NOT_CONNECTED
    assert {found.reason for found in outcome(lines).conditions} == {"NoKey"}
    missing = Machine(index=1, id="m", host="192.0.2.1", identity_file=str(tmp_path / "none"))
    with pytest.raises(SpecError, match=r"node-1: identity_file: .*no such file"):
        identity.refuse_unusable([missing])


def test_a_computer_without_any_key_does_not_wait(
    loopback: Loopback, job: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is nothing to offer, that is told at once and not at the deadline (C8)."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    machines = [loopback.server().model_copy(update={"identity_file": None}) for _ in range(2)]
    begun = time.monotonic()
    _, lines, _ = work(job(machines), "probe.look")
    assert time.monotonic() - begun < 20
    assert {found.reason for found in outcome(lines).conditions} == {"NoKey"}
