"""``runcrate-iac kubeconfig NAME``: kubectl on this computer, through SSH.

The file has no secret in it: kubectl asks this command for the credentials (an exec plugin,
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins), which gets them
from the head and opens the SSH connection that the API server is reached through. That ends by itself.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from runcrate_iac.cli import output
from runcrate_iac.cli.ssh import call
from runcrate_iac.errors import Refused, SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.machines.local.network import free_port
from runcrate_iac.model.kubernetes import PORT
from runcrate_iac.model.network import node_name, private_address
from runcrate_iac.model.spec import Software
from runcrate_iac.paths import cluster_dir, state_dir, write_atomic

Write = Annotated[Path | None, typer.Option("--write", metavar="FILE", help="Write it there, readable by you alone.")]
Credential = Annotated[bool, typer.Option("--credential", hidden=True, help="What kubectl calls.")]
API = "client.authentication.k8s.io/v1"
IDLE = timedelta(minutes=10)
"""How long the SSH connection stays open after its last use."""
ASK_AGAIN = timedelta(minutes=5)
"""How long a program uses the credentials before it asks for them again, and finds the connection open."""
TIMEOUT = 60
_ADMIN = "/etc/kubernetes/admin.conf"
_READ = f"sh -c 'cat {_ADMIN} 2> /dev/null || sudo -n cat {_ADMIN}'"
"""Not the login user's own file, which may have other clusters in it. Every login shell reads these quotes (F29)."""


def kubeconfig(
    name: output.Name, write: Write = None, credential: Credential = False, as_json: output.AsJson = False
) -> None:
    """Print a kubeconfig for kubectl on this computer. The API server is reached through SSH, and opened to nobody.

    The SSH connection opens when kubectl is used, and ends ten minutes after.
    """
    port = _port(name)
    admin = _admin(name, port)
    if credential:
        output.document(_credential(admin))
        return
    config = _config(name, port, admin["clusters"][0]["cluster"]["certificate-authority-data"])
    if write is not None:
        write_atomic(write.absolute(), yaml.safe_dump(config, sort_keys=False))
    if as_json:
        output.document({"kubeconfig": config, "path": str(write.absolute()) if write else None})
    elif write is not None:
        output.console.print(f"kubectl --kubeconfig {write} get nodes")
    else:
        sys.stdout.write(yaml.safe_dump(config, sort_keys=False))


def _port(name: str) -> int:
    """The port of this computer that leads to the API server: always the same for a cluster.

    Raises :class:`SpecError` or :class:`Refused` where the cluster has no Kubernetes.
    """
    view = Ledger().current(name)
    if view is not None and view.spec.software is not Software.KUBERNETES:
        raise SpecError(f"{name} has software: {view.spec.software}", "a kubeconfig is for software: kubernetes")
    call(name, node_name(0), [], [])  # refuses a cluster that isn't up
    file = cluster_dir(name) / "kubernetes-port"
    if not file.exists():
        write_atomic(file, f"{free_port()}\n")
    return int(file.read_text())


def _admin(name: str, port: int) -> dict[str, Any]:
    """The administrator's kubeconfig on the head, by an SSH connection that goes on to forward the port.

    Raises :class:`Refused` where it can't be read.
    """
    options = {
        "BatchMode": "yes",
        "ControlMaster": "auto",
        # Relative, since the path of a socket has 107 characters at most.
        "ControlPath": "kubernetes.ssh",
        "ControlPersist": str(int(IDLE.total_seconds())),
        "ExitOnForwardFailure": "yes",
        "ServerAliveInterval": "15",
        "LocalForward": f"127.0.0.1:{port} {private_address(0)}:{PORT}",
    }
    words = [word for option, value in options.items() for word in ("-o", f"{option}={value}")]
    command = call(name, node_name(0), words, [_READ])
    # Not a pipe: the connection that stays open keeps it open too.
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                timeout=TIMEOUT,
                check=False,
                cwd=cluster_dir(name),
            )
        except subprocess.TimeoutExpired:
            raise _no_credentials(name, f"it did not answer in {TIMEOUT} s") from None
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if done.returncode:
        raise _no_credentials(name, said[-1] if said else f"ssh ended with {done.returncode}")
    # What a login shell prints stands before it (F29).
    _, first, rest = done.stdout.partition("apiVersion:")
    if not first:
        raise _no_credentials(name, f"{_ADMIN} is no kubeconfig")
    admin: dict[str, Any] = yaml.safe_load(first + rest)
    return admin


def _no_credentials(name: str, fact: str) -> Refused:
    return Refused(f"{name}: no credentials from {node_name(0)}: {fact}", f"runcrate-iac status {name} --check")


def _config(name: str, port: int, authority: str) -> dict[str, Any]:
    plugin = {
        "apiVersion": API,
        "command": sys.executable,
        "args": ["-m", "runcrate_iac.cli", "kubeconfig", name, "--credential"],
        "env": [{"name": "RUNCRATE_IAC_HOME", "value": str(state_dir())}],
        "interactiveMode": "Never",
    }
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "tls-server-name": node_name(0),
        "certificate-authority-data": authority,
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"exec": plugin}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _credential(admin: dict[str, Any]) -> dict[str, Any]:
    """The administrator's certificate in the form that kubectl takes."""
    user = admin["users"][0]["user"]
    return {
        "apiVersion": API,
        "kind": "ExecCredential",
        "status": {
            "expirationTimestamp": f"{datetime.now(UTC) + ASK_AGAIN:%Y-%m-%dT%H:%M:%SZ}",
            "clientCertificateData": base64.b64decode(user["client-certificate-data"]).decode(),
            "clientKeyData": base64.b64decode(user["client-key-data"]).decode(),
        },
    }
