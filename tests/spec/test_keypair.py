"""The key with which a cluster's machines are reached from this computer."""

from __future__ import annotations

from pathlib import Path

import pytest

from runcrate_iac.errors import Refused, ToolMissing
from runcrate_iac.machines.keypair import cluster_key
from runcrate_iac.paths import cluster_dir


def test_the_private_key_is_for_its_owner_only() -> None:
    """It is made once and stays what it is (X4)."""
    key = cluster_key("demo")
    assert key.stat().st_mode & 0o777 == 0o600
    assert cluster_key("demo").read_text() == key.read_text()


def test_a_computer_without_ssh_keygen_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is missing, and what has it (C1)."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match=r"ssh-keygen(.|\n)*OpenSSH"):
        cluster_key("demo")


def test_a_key_that_cannot_be_written_is_told_with_the_reason() -> None:
    """What ssh-keygen says, and no trace of ours (C24)."""
    (cluster_dir("demo") / "id_ed25519.pub").mkdir(parents=True)
    with pytest.raises(Refused, match=r"no key for demo: .*id_ed25519"):
        cluster_key("demo")
