"""The file for kubectl on the user's computer, and who gets none."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runcrate_iac.cli import kubeconfig
from runcrate_iac.errors import Refused, SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.spec import ClusterSpec, Software
from runcrate_iac.paths import cluster_dir


def test_the_file_has_no_secret_and_asks_for_the_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The API server is a port of this computer, known by the head's name; credentials come from a command (X4)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    config = kubeconfig._config("demo", 40000, "Q0E=")
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert (cluster["server"], cluster["tls-server-name"]) == ("https://127.0.0.1:40000", "node-0")
    assert set(user) == {"exec"}
    assert user["exec"]["args"][-3:] == ["kubeconfig", "demo", "--credential"]
    assert user["exec"]["env"] == [{"name": "RUNCRATE_IAC_HOME", "value": str(tmp_path)}]


def test_credentials_are_asked_for_again_before_the_connection_ends() -> None:
    """Kubectl gets the administrator's certificate for less time than the SSH connection stays open (C24)."""
    encoded = {name: base64.b64encode(name.encode()).decode() for name in ("certificate", "key")}
    user = {f"client-{name}-data": value for name, value in encoded.items()}
    status = kubeconfig._credential({"users": [{"user": user}]})["status"]
    assert (status["clientCertificateData"], status["clientKeyData"]) == ("certificate", "key")
    until = datetime.strptime(status["expirationTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert until - datetime.now(UTC) < kubeconfig.IDLE


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Makes the head's answer to a login what a shell command prints."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    cluster_dir("demo").mkdir(parents=True)

    def answers(command: str) -> None:
        monkeypatch.setattr(kubeconfig, "call", lambda *_: ["sh", "-c", command])

    return answers


def test_noise_of_the_login_shell_is_no_kubeconfig(head: Callable[[str], None]) -> None:
    """What the head's shell prints first, without a line break too, is left out (F29)."""
    head("printf '\\033[1m%s' 'Welcome: [all]' ; printf 'apiVersion: v1\\nclusters: []\\n'")
    assert kubeconfig._admin("demo", 40000) == {"apiVersion": "v1", "clusters": []}


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("echo 'cat: /etc/kubernetes/admin.conf: No such file or directory' >&2; exit 1", "No such file or directory"),
        ("exit 255", "ssh ended with 255"),
        ("echo Welcome", "/etc/kubernetes/admin.conf is no kubeconfig"),
        ("exec sleep 30", "it did not answer in 0.1 s"),
    ],
)
def test_a_head_that_gives_no_credentials_is_named(
    head: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, command: str, fact: str
) -> None:
    """Node, fact and remedy are told, in time too where the head hangs (C24)."""
    monkeypatch.setattr(kubeconfig, "TIMEOUT", 0.1 if "sleep" in command else 60)
    head(command)
    with pytest.raises(Refused, match=f"demo: no credentials from node-0: .*{fact}") as refused:
        kubeconfig._admin("demo", 40000)
    assert refused.value.remedy == "runcrate-iac status demo --check"


def test_other_software_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cluster without Kubernetes, or one that is not up, is refused with what it is (C24)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    with pytest.raises(SpecError, match="no cluster called demo is up"):
        kubeconfig.kubeconfig("demo")
    spec = ClusterSpec(name="demo", software=Software.SLURM).model_dump(mode="json")
    until = {"deadline": "2026-01-01T00:25:00+00:00", "price_per_hour": "7.20"}
    Ledger().record("demo", "demo-1", Happened.RESERVED, owner="organization/p/s", spec=spec, **until)
    with pytest.raises(SpecError, match="demo has software: slurm"):
        kubeconfig.kubeconfig("demo")
