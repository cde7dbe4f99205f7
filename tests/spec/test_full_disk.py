"""A state folder on a disk that is really full, or really read-only: told in plain words, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLI = f"{sys.executable} -c 'from runcrate_iac.cli import main; main()'"
RESERVE = """
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed, follow
from runcrate_iac.ledger.view import Note
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.progress import Step
facts = {"owner": "organization/runcrate-iac/demo", "spec": {"name": "demo", "nodes": 2},
         "deadline": "2026-01-01T00:25:00+00:00", "price_per_hour": "1"}
ledger = Ledger()


def fill():
    import os, subprocess
    subprocess.run("cat /dev/zero > $RUNCRATE_IAC_HOME/fill 2>/dev/null", shell=True)


"""
FILL = 'cat /dev/zero > "$RUNCRATE_IAC_HOME/fill" 2>/dev/null'
READ_ONLY = 'mount -o remount,ro,bind "$RUNCRATE_IAC_HOME"'


def on_small_disk(tmp_path: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script whose state folder is a file system of 400 KiB of its own."""
    home = tmp_path / "home"
    home.mkdir()
    script = "\n".join([f"mount -t tmpfs -o size=400k none {home}", "set -u", *lines])
    as_root = () if os.geteuid() == 0 else ("--map-root-user",)
    command = ["unshare", "--mount", *as_root, "sh", "-c", script]
    if subprocess.run([*command[:-1], f"mount -t tmpfs none {home}"], capture_output=True, check=False).returncode:
        pytest.skip("neither root nor user namespaces: no file system can be mounted")
    env = os.environ | {"RUNCRATE_IAC_HOME": str(home), "HOME": str(tmp_path)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def python(code: str) -> str:
    """A line of shell that runs this code after :data:`RESERVE`."""
    return f"{sys.executable} - <<'END'\n{RESERVE}{code}\nEND"


MADE = python('ledger.record("demo", "demo-1", Happened.RESERVED, **facts)')


@pytest.mark.parametrize(("broken", "fact"), [(FILL, "full"), (READ_ONLY, "Read-only")], ids=["full", "read-only"])
def test_status_can_be_read_where_nothing_can_be_written(tmp_path: Path, broken: str, fact: str) -> None:
    """`status` still shows the cluster; `down` releases, or refuses, and says what it could not write (X6)."""
    down = f"{CLI} down demo --yes --json"
    done = on_small_disk(tmp_path, MADE, broken, f"{CLI} status --json", down, "echo $?")
    status, error, code = done.stdout.splitlines()
    assert json.loads(status)[0]["name"] == "demo"
    told = json.loads(error)["error"]
    assert fact in told["message"]
    assert told["remedy"]
    assert (code, told["kind"]) == ("6", "StateUnwritable")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("broken", [FILL, READ_ONLY], ids=["full", "read-only"])
def test_a_new_state_folder_that_cannot_be_written_is_told(tmp_path: Path, broken: str) -> None:
    """Where not even a new ledger can be made, the message names the file and the remedy; exit 6 (X6)."""
    done = on_small_disk(tmp_path, broken, f"{CLI} status")
    assert done.returncode == 6
    assert str(tmp_path / "home") in done.stderr
    assert "remedy" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_release_goes_on_while_the_disk_is_full(tmp_path: Path) -> None:
    """Events of a release that can't be written are kept in memory, and written once there is room (X1)."""
    code = """
import os
home = os.environ["RUNCRATE_IAC_HOME"]
ledger.record("demo", "demo-1", Happened.RESERVED, **facts)
fill()
with ledger.keeping(lambda message, node: print(message)):
    print(ledger.record("demo", "demo-1", Happened.TERMINATE_ASKED).state)
    ledger.note("demo", "demo-1", Note.MACHINE_GONE, machine="m0", node="node-0", proof="asked")
    os.unlink(f"{home}/fill")
    print(ledger.record("demo", "demo-1", Happened.RELEASED).state)
print([entry.type for entry in Ledger().entries("demo")])
"""
    done = on_small_disk(tmp_path, python(code))
    assert done.stderr == ""
    told = done.stdout.splitlines()
    assert "the disk is full; going on without it" in told[0]
    assert told[-1] == "['reserved', 'terminate_asked', 'machine_gone', 'released']"
    assert {"terminating", "terminated"} <= set(told)


def test_what_could_not_be_noted_is_said_at_the_end(tmp_path: Path) -> None:
    """Where there is no room until the end, the events that are missing in the ledger are named (X1)."""
    code = """
from runcrate_iac.errors import StateUnwritable
ledger.record("demo", "demo-1", Happened.RESERVED, **facts)
fill()
try:
    with ledger.keeping(lambda message, node: None):
        ledger.record("demo", "demo-1", Happened.TERMINATE_ASKED)
        ledger.record("demo", "demo-1", Happened.RELEASED)
except StateUnwritable as error:
    print(error.message)
print(ledger.current("demo").state)
"""
    done = on_small_disk(tmp_path, python(code))
    message, state = done.stdout.splitlines()
    assert "terminate_asked, released" in message
    assert state == "provisioning"


def test_news_goes_on_while_the_disk_is_full(tmp_path: Path) -> None:
    """A step's news are shown though its file can't be written, and torn lines in it are passed over (X6)."""
    code = """
feed = Feed("demo", Step.JOIN, lambda event: print("shown", event.message))
feed.report("first")
feed.path.open("a").write('{"time": "torn')
feed.report("lost with the torn line")
fill()
feed.report("full" + "x" * 5000)
print([event.message for event in follow("demo", 0, lambda: False)])
"""
    done = on_small_disk(tmp_path, python(code))
    assert done.stderr == ""
    assert done.stdout.count("shown") == 3
    assert done.stdout.splitlines()[-1] == "['first']"
