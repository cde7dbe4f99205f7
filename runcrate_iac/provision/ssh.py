"""One ssh_config and one known_hosts per cluster, for pyinfra, testinfra, rsync and people alike.

No ``ControlMaster`` in it: a shared connection outlives a node's reboot and the cluster's end, and its socket's path
may be longer than the system allows. Who wants one gives it on the command line.
"""

from __future__ import annotations

import re
from pathlib import Path

from runcrate_iac import paths
from runcrate_iac.errors import SpecError
from runcrate_iac.model.keys import normalise
from runcrate_iac.model.network import Machine, NetworkPlan, Node

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]*")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*\$?")


def write(cluster_name: str, plan: NetworkPlan) -> Path:
    """Write both files into the cluster's folder and return the path of the ssh_config.

    Host keys that were pinned at first contact stay, as long as the machine is the same one. Raises
    :class:`SpecError` where a machine's address, user or key can't stand in such a file.
    """
    folder = paths.cluster_dir(cluster_name)
    hosts = folder / "known_hosts"
    old = hosts.read_text() if hosts.exists() else ""
    paths.write_atomic(hosts, known_hosts(plan, old))
    config = folder / "ssh_config"
    paths.write_atomic(config, ssh_config(cluster_name, plan, hosts))
    return config


def ssh_config(cluster_name: str, plan: NetworkPlan, known_hosts_file: Path) -> str:
    """The text of the ssh_config: ``ssh -F <it> node-1`` logs in."""
    blocks = [f"# Cluster {cluster_name}, written by runcrate-iac: ssh -F <this file> {plan.head.name}"]
    for node in plan.nodes:
        _check(node)
        machine = node.machine
        lines = [
            f"HostName {machine.host}",
            f"Port {machine.port}",
            f"User {machine.user}",
            f"HostKeyAlias {node.name}",
        ]
        if machine.identity_file:
            # Only this key: a server counts every refused one, and closes after a few.
            lines += [f"IdentityFile {_quoted(machine.identity_file)}", "IdentitiesOnly yes"]
        blocks.append("\n  ".join([f"Host {node.name}", *lines]))
    common = [
        f"UserKnownHostsFile {_quoted(str(known_hosts_file))}",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
        "UpdateHostKeys no",
        "ConnectTimeout 30",
        "ServerAliveInterval 15",
    ]
    blocks.append("\n  ".join(["Host *", *common]))
    return "\n\n".join(blocks) + "\n"


def known_hosts(plan: NetworkPlan, old: str = "") -> str:
    """The text of the known_hosts: the keys that providers told, and those pinned in ``old`` for the same machines."""
    pinned = {line.split(maxsplit=1)[0] + _mark(line): line for line in old.splitlines() if line.strip()}
    lines = []
    for node in plan.nodes:
        if node.machine.host_key:
            lines.append(_line(node, node.machine.host_key))
        elif line := pinned.get(_names(node) + _identity(node.machine)):
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def is_known(node: Node, known_hosts_text: str) -> bool:
    """Whether the host key of this machine is given or pinned."""
    return any(
        line.split(maxsplit=1)[0] == _names(node) and _mark(line) == _identity(node.machine)
        for line in known_hosts_text.splitlines()
        if line.strip()
    )


def pin(known_hosts_file: Path, node: Node, host_key: str) -> None:
    """Add the ``type base64`` key that the machine showed at first contact; from now on it must stay the same."""
    old = known_hosts_file.read_text() if known_hosts_file.exists() else ""
    paths.write_atomic(known_hosts_file, f"{old}{_line(node, host_key)}\n")


def _line(node: Node, host_key: str) -> str:
    try:
        kind, key = normalise(host_key).split()[:2]
    except ValueError as error:
        msg = f"{node.name}: host_key: {error}"
        raise SpecError(msg, "give it as `ssh-keyscan` prints it, without the host's name") from None
    return f"{_names(node)} {kind} {key} {_identity(node.machine)}"


def _names(node: Node) -> str:
    # OpenSSH looks for the HostKeyAlias, paramiko knows no alias and looks for the address.
    host, port = node.machine.host, node.machine.port
    return f"{node.name},{host if port == 22 else f'[{host}]:{port}'}"  # noqa: PLR2004


def _mark(line: str) -> str:
    return line.rsplit(maxsplit=1)[-1]


def _identity(machine: Machine) -> str:
    return "machine=" + re.sub(r"[^A-Za-z0-9._:/-]", "_", machine.id)


def _check(node: Node) -> None:
    machine = node.machine
    for field, address in (("host", machine.host), ("endpoint", machine.endpoint or machine.host)):
        if not _HOST.fullmatch(address):
            msg = f"{node.name}: {field}: not an address or host name: {address!r:.60}"
            raise SpecError(msg, "give an IP address or a DNS name")
    if not _USER.fullmatch(machine.user):
        msg = f"{node.name}: user: not a user name: {machine.user!r:.40}"
        raise SpecError(msg, "give the login user, such as root or debian")


def _quoted(path: str) -> str:
    if re.search(r'["\x00-\x1f]', path):
        msg = f"a path with quotes or control characters can't be written to an ssh_config: {path!r}"
        raise SpecError(msg, "use another folder")
    return '"' + path.replace("%", "%%") + '"'
