"""Damaged files of Pulumi's: the cluster's end does not need them, and a living cluster outlives them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from pulumi_command import local

from runcrate_iac.engine import pulumi, stack_files
from runcrate_iac.engine.install import Engine
from runcrate_iac.engine.pulumi import PulumiHung, Stack, left_behind
from runcrate_iac.errors import StateDamaged
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note
from runcrate_iac.model.lifecycle import Happened

pytestmark = pytest.mark.engine
RESERVED: dict[str, Any] = {
    "owner": "organization/runcrate-iac/demo",
    "spec": {"name": "demo", "nodes": 2},
    "deadline": "2026-01-01T00:25:00+00:00",
    "price_per_hour": "0",
}
DAMAGE: dict[str, tuple[str, bytes | None]] = {
    "truncated": ("state/.pulumi/stacks/runcrate-iac/demo.json", b'{"version": 3, "checkp'),
    "attributes": ("state/.pulumi/stacks/runcrate-iac/demo.json.attrs", b"\0\0"),
    "store": ("state/.pulumi/meta.yaml", b"ver"),
    "passphrase": ("passphrase", None),
}


def program(delete: str = "true") -> Callable[[], None]:
    """A program with one step."""

    def declare() -> None:
        local.Command("step", create="true", delete=delete)

    return declare


@pytest.fixture(scope="module")
def made(pulumi_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with a stack that has one step."""
    home = tmp_path_factory.mktemp("made") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNCRATE_IAC_HOME", str(home))
        Stack(pulumi_engine, "demo", program()).up()
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to damage."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "home"))
    return Path(shutil.copytree(made, tmp_path / "home"))


def damage(home: Path, kind: str) -> Path:
    """Damage a file of the stack."""
    name, content = DAMAGE[kind]
    file = home / "pulumi" / name
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    return file


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_stack_ends_and_is_kept(home: Path, pulumi_engine: Engine, kind: str) -> None:
    """Whatever is damaged, the stack ends, its name is free, and what was damaged is kept and told (X2)."""
    file = damage(home, kind)
    told: list[str] = []
    Stack(pulumi_engine, "demo", report=lambda message, node: told.append(message)).destroy()
    assert not left_behind("demo")
    assert not stack_files.damage("demo")
    if kind == "store":  # what it says is known
        return
    kept = list((home / "pulumi").glob("demo.damaged-*"))
    assert len(kept) == 1
    assert str(kept[0]) in told[0]
    if kind != "passphrase":
        assert (kept[0] / file.relative_to(home / "pulumi")).read_bytes() == DAMAGE[kind][1]
    assert Stack(pulumi_engine, "demo", program()).preview() == {"create": 2}


def test_a_living_cluster_says_what_is_known_and_goes_on(home: Path, pulumi_engine: Engine) -> None:
    """`up` with a damaged stack names the file, state, machines and remedy; after that remedy it goes on (X2, X6)."""
    ledger = Ledger()
    ledger.record("demo", "demo-1", Happened.RESERVED, **RESERVED)
    ledger.note("demo", "demo-1", Note.MACHINE_MADE, machine="vm-17", node="node-0")
    ledger.record("demo", "demo-1", Happened.JOINED)
    file = damage(home, "truncated")
    with pytest.raises(StateDamaged) as refused:
        Stack(pulumi_engine, "demo", program())
    for fact in (str(file), "installing", "node-0 (vm-17)"):
        assert fact in refused.value.message
    assert "runcrate-iac gc" in refused.value.remedy
    gc = [sys.executable, "-c", "from runcrate_iac.cli import main; main()", "gc"]
    done = subprocess.run(gc, env=os.environ, capture_output=True, text=True, check=True)
    assert "demo.damaged-" in done.stdout
    assert Stack(pulumi_engine, "demo", program()).up() == 2


def test_an_operation_that_hangs_is_killed(home: Path, pulumi_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A destroy that does not end in its time is killed with its commands; the stack stays for the next try (F10)."""
    shutil.rmtree(home / "pulumi")
    Stack(pulumi_engine, "demo", program(delete="sleep 600")).up()
    monkeypatch.setattr(pulumi, "OPERATION_SECONDS", 6.0)
    begun = time.monotonic()
    with pytest.raises(PulumiHung, match="did not end in 6 s"):
        Stack(pulumi_engine, "demo").destroy()
    assert time.monotonic() - begun < 30
    work = str(stack_files.work("demo"))
    assert [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == work] == []
    assert left_behind("demo")
