"""The node's side of every script, in a real shell: what is put into files, and what stays the user's."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.render import render

ME = pwd.getpwuid(os.getuid()).pw_name


def shell(text: str) -> list[str]:
    """The lines that a script prints after the library."""
    script = f"umask 077\n{render('shell/lib.sh')}\n{text}"
    done = subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def block(path: Path, lines: str, before: str = "") -> list[str]:
    """Put a block into a file."""
    return shell(f"{before}\nknow '{path}'\nblock '{path}' 640 {ME} '{lines}'\n")


def network(nodes: int = 2) -> NetworkPlan:
    """So many nodes."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}") for i in range(nodes)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, "# runcrate-iac begin\na\n# runcrate-iac end\n"),
        ("user\n", "user\n# runcrate-iac begin\na\n# runcrate-iac end\n"),
        ("no line break", "no line break\n# runcrate-iac begin\na\n# runcrate-iac end\n"),
        (
            "before\n# runcrate-iac begin\nold\n# runcrate-iac end\nafter\n",
            "before\nafter\n# runcrate-iac begin\na\n# runcrate-iac end\n",
        ),
        (
            "# runcrate-iac begin\nhalf a block, then the user's\n",
            "# runcrate-iac begin\nhalf a block, then the user's\n# runcrate-iac begin\na\n# runcrate-iac end\n",
        ),
    ],
)
def test_a_block_leaves_the_users_lines(old: str | None, new: str, tmp_path: Path) -> None:
    """Our lines stand between our marks; the user's stay, with or without a final line break (F30)."""
    path = tmp_path / "authorized_keys"
    if old is not None:
        path.write_text(old)
    assert block(path, "a") == [str(path)]
    assert path.read_text() == new
    assert block(path, "a") == []


def test_modes_are_set_and_not_inherited(tmp_path: Path) -> None:
    """A file has the mode that was asked for under umask 077, and gets it back when someone changes it (G15)."""
    path = tmp_path / "sub" / "file"
    block(path, "a")
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o600)
    assert block(path, "a") == [str(path)]
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_dry_run_tells_and_changes_nothing(tmp_path: Path) -> None:
    """What would be changed is printed, and nothing is (X7)."""
    path = tmp_path / "file"
    assert block(path, "a", before="dry=yes") == [str(path)]
    assert not path.exists()
    assert shell(f"dry=yes\nrun touch '{path}'\n") == [f"touch {path}"]
    assert not path.exists()


@pytest.fixture
def names(tmp_path: Path) -> Path:
    """node-1's script of names, with the system's files in a folder of the test."""
    for name in ("hostname", "kernel"):
        (tmp_path / name).write_text("GPU_Box-01\n")
    text = render("network/names.sh.j2", node=network().nodes[1], plan=network())
    script = tmp_path / "names"
    script.write_text(text.replace("/proc/sys/kernel/hostname", f"{tmp_path}/kernel").replace("/etc/", f"{tmp_path}/"))
    return script


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("127.0.1.1 node-1", ""),
        ("127.0.1.1\tnode-1.example.org node-1", "127.0.1.1 node-1.example.org\n"),
        ("::1 localhost node-0", "::1 localhost\n"),
        ("192.0.2.9 node-0 printer # mine", "192.0.2.9 printer\n"),
        ("# node-1 is the second", "# node-1 is the second\n"),
        ("192.0.2.9   node-10\tnode-1x", "192.0.2.9   node-10\tnode-1x\n"),
    ],
)
def test_our_names_mean_their_private_address_only(names: Path, line: str, kept: str) -> None:
    """Our names leave every other line of /etc/hosts; other names and lines stay as they are (G11, F1)."""
    hosts = names.with_name("hosts")
    hosts.write_text(f"127.0.0.1 localhost\n\n{line}\n")
    assert subprocess.run(["sh", names, "check"], check=False).returncode == 1
    assert line in hosts.read_text()
    subprocess.run(["sh", names], check=True)
    ours = "# runcrate-iac begin\n10.77.0.1 node-0\n10.77.0.2 node-1\n# runcrate-iac end\n"
    assert hosts.read_text().rstrip("\n") == f"{ours}127.0.0.1 localhost\n\n{kept}".rstrip("\n")
    assert (names.with_name("hostname").read_text(), names.with_name("kernel").read_text()) == ("node-1\n", "node-1\n")
    assert subprocess.run(["sh", names, "check"], check=False).returncode == 0


@pytest.fixture
def noisy_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every login is one to this computer, whose start-up files print something without a line break."""
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text("#!/bin/sh\nprintf 'Welcome '\nshift 3\nexec sh -c \"$*\"\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")


@pytest.mark.usefixtures("noisy_login")
def test_a_noisy_login_to_the_next_node_is_one(tmp_path: Path) -> None:
    """What the next node's start-up files print, without a line break too, is no failed login (F29)."""
    nodes = network()
    text = render("network/probe.sh.j2", plan=nodes, node=nodes.nodes[0], peers=[], next=nodes.nodes[1], seconds=1)
    login = text.partition("log_in() {")[2].partition("ping_all 2>&1 |")[0].replace("10.77.0.2", "127.0.0.1")
    text = f"log_in() {{{login}\nlog_in\n"
    done = subprocess.run(["sh", "-s"], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "ssh root\ntcp open\n"
    hostfile = tmp_path / "hostfile"
    hostfile.write_text("node-0 slots=8\nnode-1 slots=8\n")
    values = {"plan": nodes, "present": nodes, "node": nodes.nodes[0], "next": nodes.nodes[1], "is_head": True}
    more = {"gpu_device": "/dev/none", "shared": False, "storage_there": True, "token": "t", "tries": 1, "seconds": 1}
    text = render("checks/node.sh.j2", hostfile=hostfile, **values, **more)
    done = subprocess.run(["sh", "-s"], input=text, capture_output=True, text=True, check=True)
    back = [line for line in done.stdout.splitlines() if line.startswith(("back", "unreturned"))]
    assert back == ["back node-0 slots=8", "back node-1 slots=8"]


def test_of_two_nodes_that_meet_the_lower_begins(tmp_path: Path) -> None:
    """While nodes meet none begins a handshake, then the lower of two does: crossed ones cost up to 15 s (C8)."""
    nodes, told, meeting = network(3), tmp_path / "told", tmp_path / "runcrate-meeting"
    values = {"plan": nodes, "node": nodes.nodes[1], "routed": {}}
    keys = {"node-0": "K0", "node-1": "K1", "node-2": "K2"}
    (tmp_path / "wg-runcrate.key").write_text("secret\n")
    (tmp_path / "wg-runcrate.conf").write_text(render("network/wireguard.conf.j2", public_keys=keys, **values))
    mesh = render("network/mesh.sh.j2", mtu=1420, **values)
    for tool, body in {"wg": f'echo "$@" > {told}; [ $1 = set ] || cat >> {told}', "ip": ":"}.items():
        (tmp_path / tool).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / tool).chmod(0o755)
    for place, new in {"/etc/wireguard": f"{tmp_path}", "/run/": f"{tmp_path}/", "PATH=": f"PATH={tmp_path}:"}.items():
        mesh = mesh.replace(place, new)

    def run(verb: str) -> str:
        subprocess.run(["sh", "-s", verb], input=mesh, text=True, check=True)
        return told.read_text()

    assert run("up").count("PersistentKeepalive = 25\n") == 2
    meeting.touch()
    assert "PublicKey = K2" in run("up")
    assert "Keepalive" not in told.read_text()
    assert run("begin") == "set wg-runcrate peer K2 persistent-keepalive 25\n"
    both = "set wg-runcrate peer K0 persistent-keepalive 25 peer K2 persistent-keepalive 25\n"
    assert run("keep") == both


def test_a_peer_whose_name_means_nothing_keeps_no_other_out(tmp_path: Path) -> None:
    """Wg refuses a file in which one endpoint has no address; the others are met, and it is tried again (C8, F20)."""
    machines = [Machine(index=i, id=f"m{i}", host=host) for i, host in enumerate(("gone.test", "2001:db8::1", "known"))]
    nodes, told, again = plan([*machines, Machine(index=3, id="m3", host="me")]), tmp_path / "told", tmp_path / "again"
    values = {"plan": nodes, "node": nodes.nodes[3], "routed": {}}
    keys = {node.name: f"K{node.index}" for node in nodes.nodes}
    (tmp_path / "wg-runcrate.key").write_text("secret\n")
    (tmp_path / "wg-runcrate.conf").write_text(render("network/wireguard.conf.j2", public_keys=keys, **values))
    mesh = render("network/mesh.sh.j2", mtu=1420, **values).replace("/etc/wireguard", f"{tmp_path}")
    tools = {
        "wg": f"case $1 in syncconf) cat > {told}.new; ! grep -q gone.test {told}.new && mv {told}.new {told} ;; esac",
        "getent": '[ "$2" != gone.test ]',
        "systemd-run": f"echo $@ > {again}",
        "ip": ":",
    }
    for tool, body in tools.items():
        (tmp_path / tool).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / tool).chmod(0o755)
    subprocess.run(["sh", "-s", "up"], input=mesh.replace("PATH=", f"PATH={tmp_path}:"), text=True, check=True)
    endpoints = [line for line in told.read_text().splitlines() if line.startswith(("PublicKey", "Endpoint"))]
    assert endpoints == [
        *("PublicKey = K0", "PublicKey = K1", "Endpoint = [2001:db8::1]:51820"),
        *("PublicKey = K2", "Endpoint = known:51820"),
    ]
    assert again.read_text().endswith("systemctl reload runcrate-mesh.service\n")


def test_nodes_find_an_sshd_that_is_on_another_port(tmp_path: Path) -> None:
    """A name means the port that its node's sshd told, and the key that is known for the name (C2, X4)."""
    config = tmp_path / "config"
    config.write_text(render("network/ssh_config.j2", plan=network(), peer_ssh_ports={0: 22, 1: 2222}))
    for name, port, alias in (("node-0", "22", None), ("node-1", "2222", "node-1"), ("10.77.0.2", "2222", "node-1")):
        done = subprocess.run(["ssh", "-G", "-F", config, name], capture_output=True, text=True, check=True)
        told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if " " in line)
        assert (told["port"], told.get("hostkeyalias"), told["stricthostkeychecking"]) == (port, alias, "true")


def test_the_shell_takes_every_script_of_the_join() -> None:
    """No script has a syntax error, whatever a key's comment says (F30)."""
    values: dict[str, object] = {
        "node": network().nodes[0],
        "plan": network(),
        "interface": "wg-runcrate",
        "users": ["u", "root"],
    }
    scripts: dict[str, dict[str, object]] = {
        "names.sh.j2": {},
        "keys.sh.j2": {"packages": ["wireguard-tools"]},
        "meet.sh.j2": {"peers": ["192.0.2.2"]},
        "mesh.sh.j2": {"mtu": 1420, "routed": True, "pod_network": "10.78.0.0/16"},
        "probe.sh.j2": {"peers": [network().nodes[1]], "next": network().nodes[1], "seconds": 12},
        "lower-mtu.sh.j2": {"mtu": 1200},
        "configure.sh.j2": {
            "users": [{"name": "u", "home": "/h", "authorized": ["k it's; '$(x)"]}],
            "known_hosts": ["h"],
            "units": ["runcrate-mesh.service"],
            "routed": True,
            "pod_network": "10.78.0.0/16",
        },
    }
    for name, more in scripts.items():
        text = render(f"network/{name}", **(values | more))
        done = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name
