"""The cluster's ssh_config and known_hosts: pure text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runcrate_iac.errors import SpecError
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.provision import ssh

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEimdT6lR+nwEhnh5aVtkfUGrtjQ3uflWIgBJIsEcFx9"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII11VahKNh1bCc5MYqPmGdoBK0mPJmR6/gHuKUPWaLcg"


def two(**first: object) -> NetworkPlan:
    """Two machines: one behind a forwarded port with a known host key, one that nobody has met."""
    machines = [
        Machine(index=0, id="a", host="127.0.0.1", port=2201, user="runcrate", host_key=KEY, identity_file="/k/id"),
        Machine(index=1, id="b", host="192.0.2.7"),
    ]
    machines[0] = machines[0].model_copy(update=first)
    return plan(machines)


def test_the_ssh_config_names_every_node() -> None:
    """Each node is a host with its address, port, user and key; only a given key is offered (C2, G1)."""
    assert (
        ssh.ssh_config("demo", two(), Path("/s/known_hosts"))
        == """\
# Cluster demo, written by runcrate-iac: ssh -F <this file> node-0

Host node-0
  HostName 127.0.0.1
  Port 2201
  User runcrate
  HostKeyAlias node-0
  IdentityFile "/k/id"
  IdentitiesOnly yes

Host node-1
  HostName 192.0.2.7
  Port 22
  User root
  HostKeyAlias node-1

Host *
  UserKnownHostsFile "/s/known_hosts"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  ConnectTimeout 30
  ServerAliveInterval 15
"""
    )


def test_openssh_reads_it_as_meant(tmp_path: Path) -> None:
    """OpenSSH itself takes the values, of a folder with blanks and % in its name too (C23)."""
    folder = tmp_path / "a b%c"
    folder.mkdir()
    config = folder / "ssh_config"
    config.write_text(ssh.ssh_config("demo", two(identity_file=str(folder / "id")), folder / "known_hosts"))
    done = subprocess.run(["ssh", "-G", "-F", config, "node-0"], capture_output=True, text=True, check=True)
    read = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line)
    assert (read["hostname"], read["port"], read["user"]) == ("127.0.0.1", "2201", "runcrate")
    assert read["stricthostkeychecking"] == "true"
    assert read["identityfile"] == str(folder / "id").replace("%", "%%")
    assert read["controlmaster"] == "false"


def test_known_keys_stand_under_name_and_address() -> None:
    """A key that the provider tells is known by the node's name and by its address; an unknown one is no line (C2)."""
    assert ssh.known_hosts(two()) == f"node-0,[127.0.0.1]:2201 {KEY} machine=a\n"


def test_a_pinned_key_stays_with_its_machine(tmp_path: Path) -> None:
    """A key pinned at first contact stays for the same machine, and is forgotten with another one (F29)."""
    network = two()
    hosts = tmp_path / "known_hosts"
    hosts.write_text(ssh.known_hosts(network))
    assert not ssh.is_known(network.nodes[1], hosts.read_text())
    ssh.pin(hosts, network.nodes[1], OTHER)
    assert ssh.is_known(network.nodes[1], hosts.read_text())
    again = ssh.known_hosts(network, hosts.read_text())
    assert again.splitlines()[1] == f"node-1,192.0.2.7 {OTHER} machine=b"
    another = plan([node.machine.model_copy(update={"id": "new"}) for node in network.nodes])
    assert not ssh.is_known(another.nodes[1], ssh.known_hosts(another, again))


def test_both_files_are_written_for_their_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files lie in the cluster's folder and only their owner reads them (C23)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    config = ssh.write("demo", two())
    assert config == tmp_path / "clusters" / "demo" / "ssh_config"
    assert {path.stat().st_mode & 0o777 for path in (config, config.with_name("known_hosts"))} == {0o600}


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "192.0.2.7\n  ProxyCommand touch /tmp/x"},
        {"host": "-oProxyCommand=x"},
        {"endpoint": "192.0.2.1\nPrivateKey = x"},
        {"user": "root\n  LocalCommand x"},
        {"identity_file": '/k/"id'},
        {"host_key": "not a key"},
    ],
)
def test_what_would_break_out_of_the_file_is_refused(
    wrong: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address, user, path or key that can't stand in the file is an error that says so (C2)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    with pytest.raises(SpecError):
        ssh.write("demo", two(**wrong))
