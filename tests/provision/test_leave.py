"""What a machine was before the join, recorded and brought back: in a real shell, its files in a folder of the test."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runcrate_iac.model.kubernetes import POD_NETWORK
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.provision import leave
from runcrate_iac.provision.remote import File, files
from runcrate_iac.render import render
from tests.provision.conftest import Loopback

ME = pwd.getpwuid(os.getuid()).pw_name
SYSTEMCTL = """#!/bin/sh
echo "$@" >> {log}
case "$*" in *is-active*) exit 3 ;; esac
"""


def network() -> NetworkPlan:
    """Two nodes."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}") for i in range(2)])


class Here:
    """A machine whose system's folders are in a folder of the test."""

    def __init__(self, root: Path) -> None:
        """It is named ``box`` and in no cluster."""
        self.root = root
        self.file("/etc/hostname").write_text("box\n")
        self.file("/etc/hosts").write_text("127.0.0.1 localhost\n")
        self.file("/proc/sys/kernel/hostname").write_text("box\n")
        self.file("/run/systemd")
        systemctl = self.file("/usr/bin/systemctl")
        systemctl.write_text(SYSTEMCTL.format(log=root / "systemctl"))
        systemctl.chmod(0o755)
        before = self.file("/var/lib/runcrate/before/tree").parent
        (before / "tree").mkdir()
        (before / "list").touch()
        (before / "hostname").write_text("box\n")
        self.file("/var/lib/runcrate/cluster").write_text("t-1\n")
        leave = self.file("/usr/local/lib/runcrate/leave")
        values = {"plan": network(), "node": network().nodes[1], "pod_network": POD_NETWORK}
        leave.write_text(self.moved(render("lease/leave.sh.j2", **values)))
        self.leaves = leave

    def file(self, path: str) -> Path:
        """Where the system's ``path`` is; its folder is there."""
        found = self.root / path.removeprefix("/")
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def moved(self, text: str) -> str:
        """The script with the system's folders here."""
        for folder in ("/var/lib/", "/usr/local/lib/", "/usr/local/share/", "/proc/sys/", "/etc/", "/run/"):
            text = text.replace(folder, f"{self.root}{folder}")
        return text.replace(" PATH=", f" PATH={self.root}/usr/bin:")

    def shell(self, text: str) -> None:
        """Run a script of the join."""
        script = f"{render('shell/lib.sh')}\n{text}"
        subprocess.run(["sh", "-s"], input=self.moved(script), text=True, check=True, stdout=subprocess.PIPE)

    def join(self) -> None:
        """Give it the name node-1 in a cluster of two."""
        script = self.file("/usr/local/lib/runcrate/names")
        script.write_text(self.moved(render("network/names.sh.j2", node=network().nodes[1], plan=network())))
        self.shell("keep file /usr/local/lib/runcrate/names; keep hosts /etc/hosts; keep hostname /etc/hostname\n")
        subprocess.run(["sh", script], check=True)

    def leave(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `leave`."""
        return subprocess.run(["sh", self.leaves, *words], capture_output=True, text=True, check=False)

    def look(self) -> dict[str, tuple[int, bytes | None]]:
        """Every path of /etc, its mode and content."""
        etc = self.root / "etc"
        return {str(p): (p.lstat().st_mode, p.read_bytes() if p.is_file() else None) for p in sorted(etc.rglob("*"))}


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A machine."""
    return Here(tmp_path)


@pytest.mark.parametrize("old", [None, "", "user\n", "no line break", "a\n\n\n", "\nb\n"])
@pytest.mark.parametrize("how", ["put", "block"])
def test_files_are_what_they_were(here: Here, old: str | None, how: str) -> None:
    """Content, mode and folder of every file come back byte for byte, and what was not there goes (C22)."""
    path = here.file("/etc/some/file") if old is not None else here.root / "etc/some/file"
    if old is not None:
        path.write_text(old)
        path.chmod(0o640)
    before = here.look()
    ours = files(File("/etc/some/file", "ours\n", owner=ME))
    text = ours if how == "put" else f"know /etc/some/file\nblock /etc/some/file 644 {ME} ours\n"
    for _ in range(2):
        here.shell(text)
    here.shell(text.replace("ours", "more"))
    assert path.read_text() != (old or "")
    done = here.leave()
    assert (done.returncode, done.stderr) == (0, "")
    assert here.look() == before
    assert not (here.root / "var/lib/runcrate").exists()


@pytest.mark.parametrize("old", [None, "user\n"])
def test_lines_that_came_since_stay(here: Here, old: str | None) -> None:
    """A key that the user added during the cluster's life is there afterwards, ours are not (C22)."""
    path = here.file("/etc/authorized_keys")
    if old:
        path.write_text(old)
    here.shell(f"know /etc/authorized_keys\nblock /etc/authorized_keys 600 {ME} ours\n")
    path.write_text(path.read_text() + "new\n")
    assert here.leave().returncode == 0
    assert path.read_text() == f"{old or ''}new\n"


@pytest.mark.parametrize(
    "line",
    [
        "127.0.1.1 node-1",
        "127.0.1.1\tnode-1.example.org node-1",
        "192.0.2.9 node-0 printer # mine",
        "192.0.2.9   node-10\tnode-1x",
        "",
    ],
)
def test_hosts_and_hostname_are_what_they_were(here: Here, line: str) -> None:
    """Names that the join took out of a line of /etc/hosts are in it again, beside lines that came since (G11)."""
    hosts = here.file("/etc/hosts")
    hosts.write_text(f"127.0.0.1 localhost\n{line}\n\n")
    before = here.look()
    here.join()
    assert here.file("/proc/sys/kernel/hostname").read_text() == "node-1\n"
    after = hosts.read_text()
    assert here.leave().returncode == 0
    assert here.look() == before
    assert here.file("/proc/sys/kernel/hostname").read_text() == "box\n"

    again = Here(here.root)
    hosts.write_text(f"127.0.0.1 localhost\n{line}\n\n")
    again.join()
    assert hosts.read_text() == after
    hosts.write_text(f"{after}192.0.2.7 new\n")
    assert again.leave().returncode == 0
    wanted = sorted(["127.0.0.1 localhost", line, "192.0.2.7 new"])
    assert sorted(hosts.read_text().splitlines()) == [one for one in wanted if one]


def test_a_name_that_was_changed_since_stays(here: Here) -> None:
    """A hostname that the user gave after the join is theirs (F1)."""
    here.join()
    here.file("/etc/hostname").write_text("mine\n")
    assert here.leave().returncode == 0
    assert here.file("/etc/hostname").read_text() == "mine\n"


def test_what_fails_is_told_and_done_the_next_time(here: Here) -> None:
    """A path that can't be brought back is named, the others are, and the record stays for the next run (X2)."""
    here.join()
    saved = here.root / "var/lib/runcrate/before/tree" / str(here.file("/etc/hostname")).removeprefix("/")
    saved.rename(saved.with_name("aside"))
    done = here.leave()
    assert done.returncode == 1
    assert "/etc/hostname is not as it was" in done.stderr
    assert here.file("/etc/hosts").read_text() == "127.0.0.1 localhost\n"
    saved.with_name("aside").rename(saved)
    assert here.leave().returncode == 0
    assert here.file("/etc/hostname").read_text() == "box\n"
    assert here.file("/etc/hosts").read_text() == "127.0.0.1 localhost\n"


def test_a_machine_that_is_in_another_cluster_is_left_alone(here: Here) -> None:
    """The end of a cluster doesn't touch a machine that has joined another one since (C7)."""
    here.join()
    joined = here.look()
    done = here.leave("t-0")
    assert (done.returncode, "in another cluster by now: t-1" in done.stdout) == (0, True)
    assert here.look() == joined
    assert here.leave("t-1").returncode == 0


def test_links_and_folders_come_back(here: Here) -> None:
    """A unit that was masked is masked again; a folder that holds a file of the user's stays (C22)."""
    unit = here.file("/etc/systemd/system/munge.service")
    unit.symlink_to("/dev/null")
    here.shell("keep file /etc/systemd/system/munge.service /etc/ours/sub/file\n")
    unit.unlink()
    here.file("/etc/ours/sub/file").write_text("ours\n")
    here.file("/etc/ours/theirs").write_text("theirs\n")
    assert here.leave().returncode == 0
    assert unit.readlink() == Path("/dev/null")
    assert [path.name for path in (here.root / "etc/ours").iterdir()] == ["theirs"]
    assert "munge.service" in (here.root / "systemctl").read_text()


def test_nothing_is_recorded_where_nothing_is_to_be_undone(here: Here) -> None:
    """Machines that are thrown away pay nothing for it: without a record, none is begun (X9)."""
    before = here.root / "var/lib/runcrate/before"
    before.rename(before.with_name("elsewhere"))
    here.shell(files(File("/etc/file", "ours\n", owner=ME)))
    assert not before.exists()


def test_a_machine_that_does_not_answer_is_named_and_left(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Leaving goes on without it, within its time, and says what to run on it (C7)."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(leave, "_PAUSE", 0.1)
    good, refusing = loopback.server(), loopback.server(authorized=False)
    closed, never = loopback.machine(port=1, host_key=good.host_key), loopback.machine(port=2)
    machines = [m.model_copy(update={"index": i}) for i, m in enumerate((good, refusing, closed, never))]
    said: dict[str | None, str] = {}
    report: Callable[[str, str | None], None] = lambda message, node: said.update({node: message})  # noqa: E731
    begun = time.monotonic()
    assert leave.leave("t", "t-1", machines, report) == ("node-1", "node-2", "node-3")
    assert time.monotonic() - begun < 30
    assert said["node-0"] == "is as it was before the join"
    assert "Permission denied" in said["node-1"]
    assert "refused" in said["node-2"]
    assert "never logged in" in said["node-3"]
    assert "sudo /usr/local/lib/runcrate/leave" in said["node-2"]


@pytest.mark.parametrize("pods", [False, True])
def test_firewalls_of_the_sites_own_let_the_cluster_in_until_it_ends(here: Here, pods: bool) -> None:
    """A ufw or a firewalld that is on lets the mesh and pods in until a machine leaves (C6, C22, F25)."""
    programs = {
        "ufw": "echo ufw $* >> {log}",
        "firewall-cmd": "echo firewall-cmd $* >> {log}",
        "systemctl": "case $* in *is-active*firewalld*) exit 0 ;; *is-active*) exit 3 ;; esac",
    }
    log = here.root / "firewalls"
    for name, text in programs.items():
        program = here.file(f"/usr/bin/{name}")
        program.write_text(f"#!/bin/sh\n{text.format(log=log)}\n")
        program.chmod(0o755)
    here.file("/etc/ufw/ufw.conf").write_text("ENABLED=yes\n")
    here.file("/etc/firewalld/zones/trusted.xml").parent.with_name("firewalld.conf").touch()
    before = here.look()
    values = {"users": [], "known_hosts": [], "units": [], "node": network().nodes[1], "pod_network": POD_NETWORK}
    text = render(
        "network/configure.sh.j2", plan=network(), routed={"node-0": "10.78.0.0/24"} if pods else {}, **values
    )
    text = text[text.index("# Firewalls of the site's own") : text.index("start= ")]
    here.shell(text)
    ufw = ["allow 51820/udp", "allow in on wg-runcrate"]
    ufw_pods = [f"{how} {POD_NETWORK}" for how in ("allow from", "route allow from", "route allow to") if pods]
    firewalld = ["port=51820/udp", "interface=wg-runcrate", *([f"source={POD_NETWORK}"] if pods else [])]

    def told(word: str, what: str) -> str:
        zone = "" if what.startswith("port") else "--zone=trusted "
        return f"{zone}--{word}-{what}"

    adding = [told("change" if "interface" in what else "add", what) for what in firewalld]
    assert log.read_text().splitlines() == [
        *(f"ufw {how}" for how in [*ufw, *ufw_pods]),
        *(f"firewall-cmd {when}{what}" for what in adding for when in ("", "--permanent ")),
    ]
    here.file("/etc/ufw/user.rules").write_text(
        "### tuple ### allow any any 0.0.0.0/0 any 0.0.0.0/0 in_wg-runcrate\n"
        f"### tuple ### route:allow any any {POD_NETWORK} any 0.0.0.0/0 in\n"
    )
    here.file("/etc/firewalld/zones/trusted.xml").write_text(f'<interface name="wg-runcrate"/><x a="{POD_NETWORK}"/>\n')
    log.unlink()
    here.shell(text)
    assert not log.exists()
    for rules in ("/etc/ufw/user.rules", "/etc/firewalld/zones/trusted.xml"):
        here.file(rules).unlink()
    done = here.leave()
    assert (done.returncode, done.stderr) == (0, "")
    removing = [told("remove", what) for what in firewalld]
    deleting = [f"route delete {how[6:]}" if how.startswith("route") else f"delete {how}" for how in [*ufw, *ufw_pods]]
    assert log.read_text().splitlines() == [
        *(f"ufw {how}" for how in deleting),
        *(f"firewall-cmd {when}{what}" for when in ("", "--permanent ") for what in removing),
    ]
    assert here.look() == before
