"""The command line without any cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

VERBS = (
    "up",
    "preview",
    "status",
    "check",
    "bandwidth",
    "ssh",
    "kubeconfig",
    "retry",
    "artifacts verify",
    "down",
    "gc",
    "moved",
    "events",
    "receipt",
    "doctor",
    "setup",
)
NAMED = {
    "status": "..",
    "check": "Demo",
    "bandwidth": "",
    "ssh": "../demo",
    "kubeconfig": "demo\n",
    "retry": "..",
    "down": ".",
    "events": "a/b",
    "receipt": "-",
}
"""Those that take a cluster's name, each with one that none can have."""
HEAVY = ("pulumi", "grpc", "pyinfra", "gevent", "paramiko")


def run(tmp_path: Path, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command with a state folder of its own, after other code in its process."""
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "RUNCRATE_IAC_HOME": str(tmp_path / "home")}
    env["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")  # the checkout that is tested
    command = [sys.executable, "-c", f"{before}\nfrom runcrate_iac.cli import main; main()", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=tmp_path)


def loaded(code: str) -> set[str]:
    """The heavy modules that this code loads in a fresh interpreter."""
    probe = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()} & set(HEAVY)


def test_help_teaches_verbs_and_exit_codes(tmp_path: Path) -> None:
    """The help lists every verb and every exit code (C24)."""
    told = run(tmp_path, "--help").stdout
    assert all(verb.split()[0] in told for verb in VERBS)
    assert {str(code) for code in range(7)} <= set(told.split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_json(tmp_path: Path, verb: str) -> None:
    """Every verb takes --json (C24)."""
    assert "--json" in run(tmp_path, *verb.split(), "--help").stdout


def test_the_command_loads_neither_pulumi_nor_pyinfra() -> None:
    """Asking for help pays for neither Pulumi nor pyinfra (C24)."""
    assert loaded("import runcrate_iac.cli.app") == set()


def test_the_package_loads_neither_pulumi_nor_pyinfra() -> None:
    """Importing the package, and the steps' processes, load no gRPC and no gevent (X4)."""
    assert loaded("import runcrate_iac, runcrate_iac.provision.__main__, runcrate_iac.machines.__main__") == set()


@pytest.mark.parametrize(
    "words", [("up",), ("up", "a.yaml", "b.yaml"), ("frobnicate",), ("down",), ("up", "--nodes=3", "x")]
)
def test_wrong_arguments_exit_with_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Wrong arguments exit with 2 and say how the verb is used; with --json in a document (C24)."""
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert "usage" in done.stderr.lower()
    document = run(tmp_path, *words, "--json")
    assert (document.returncode, json.loads(document.stdout)["error"]["exit_code"]) == (2, 2)


@pytest.mark.parametrize(
    "words", [("status", "nobody"), ("events", "nobody"), ("receipt", "nobody"), ("ssh", "nobody")]
)
def test_an_unknown_cluster_is_told(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A name that never was is an error with a remedy, as text and as a document (C24)."""
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert "nobody" in done.stderr
    assert "remedy" in done.stderr
    document = json.loads(run(tmp_path, *words, "--json").stdout)
    assert document["error"]["exit_code"] == 2


@pytest.mark.parametrize(("verb", "name"), NAMED.items())
def test_a_name_that_no_cluster_can_have_is_refused(tmp_path: Path, verb: str, name: str) -> None:
    """A path, or what else is no name, is refused with the rule by every verb, and no file is touched (C24, X2)."""
    work = tmp_path / "home" / "pulumi" / "work" / "demo"
    work.mkdir(parents=True)
    done = run(tmp_path, verb, name)
    assert done.returncode == 2
    assert "lower-case letters, digits and '-'" in done.stderr
    assert [path for path in tmp_path.rglob("*") if path not in (work, *work.parents)] == []


def test_status_without_a_name_lists_nothing_at_first(tmp_path: Path) -> None:
    """With no cluster ever made, the list is empty (C24)."""
    assert json.loads(run(tmp_path, "status", "--json").stdout) == []


def test_a_state_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A state folder that is a file is an error that names it, and no traceback (X6)."""
    (tmp_path / "home").write_text("")
    done = run(tmp_path, "status")
    assert done.returncode == 6
    assert str(tmp_path / "home") in done.stderr


def test_a_fault_of_ours_is_a_document_too(tmp_path: Path) -> None:
    """What nobody expected exits with 1, as a document with --json, and with its traceback in any case (C24)."""
    broken = "from runcrate_iac.cli import status; status.Ledger = None"
    document = run(tmp_path, "status", "--json", before=broken)
    text = run(tmp_path, "status", before=broken)
    assert (document.returncode, text.returncode) == (1, 1)
    assert "TypeError" in json.loads(document.stdout)["error"]["message"]
    assert "Traceback" in document.stderr
    assert "error: a fault in runcrate-iac: TypeError" in text.stderr
