"""The user's set-up script: what a spec may name, and what its end on a node means."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcrate_iac.components.documents import step_document
from runcrate_iac.errors import SpecError
from runcrate_iac.model.conditions import Condition, Status, sentences
from runcrate_iac.model.documents import StepInput
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import ClusterSpec, parse
from runcrate_iac.paths import bundled
from runcrate_iac.provision.setup import checked, ended
from runcrate_iac.provision.step import seconds
from runcrate_iac.render import render
from runcrate_iac.specfile import load, script_of

SPEC = ClusterSpec(name="demo", setup="/home/me/setup.sh", setup_timeout=600)
MADE = '{"cluster_id": "demo-1", "deadline": "2026-01-01T00:25:00Z", "price_per_hour": {"usd": "5"}, "machines": []}'


def spec(folder: Path, content: bytes | None = b"#!/bin/sh\ntrue", **fields: Any) -> Path:
    """A spec file that names a script with this content beside it."""
    if content is not None:
        (folder / "setup.sh").write_bytes(content)
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump({"name": "demo", "setup": "setup.sh"} | fields))
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer on which no cluster is known."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "state"))


def test_the_script_stands_beside_the_spec(tmp_path: Path) -> None:
    """A relative path is the spec file's, and the script always ends with a line break (C24)."""
    loaded = load(spec(tmp_path))
    assert loaded.setup == str(tmp_path / "setup.sh")
    assert script_of(loaded) == "#!/bin/sh\ntrue\n"


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (None, "No such file"),
        (b"", "it is empty"),
        (b"\xff\xfe#", "it is not text"),
        (b"#!/bin/sh\n\0", "it is not text"),
        (b"#!/bin/bash\r\nhunter2\r\n", "line 1 has the line end of Windows"),
        (b"#!/bin/bash\necho\nexit 0\r\nhunter2\n", "line 3 has the line end of Windows"),
        (b"#!/bin/bash\nhunter2\r", "line 2 has the line end of Windows"),
        (b"#" * 300_000, "more than 262144 bytes"),
    ],
)
def test_a_script_that_could_not_run_is_refused(tmp_path: Path, content: bytes | None, fact: str) -> None:
    """It is refused with field, path and fact before anything is reserved, and nothing in it is told (C9, X4)."""
    with pytest.raises(SpecError) as error:
        load(spec(tmp_path, content))
    assert error.value.message.startswith(f"setup: {tmp_path / 'setup.sh'}: ")
    assert fact in error.value.message
    assert "hunter2" not in str(error.value)


def test_what_is_no_file_is_no_script(tmp_path: Path) -> None:
    """A folder, a device that never ends, and a pipe that nobody writes to are refused at once (C9)."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, Path("/dev/zero"), pipe):
        with pytest.raises(SpecError, match=f"setup: {path}: it is not a file"):
            load(spec(tmp_path, setup=str(path)))


@pytest.mark.parametrize("limit", [0, -1, 86401, "long", 1.5])
def test_its_limit_is_in_seconds(limit: object) -> None:
    """Any limit but 1 second to a day is refused, naming the field (F40)."""
    with pytest.raises(SpecError, match="setup_timeout"):
        parse({"name": "demo", "setup": "/setup.sh", "setup_timeout": limit})


def test_its_time_is_its_own() -> None:
    """The step may take what the user allows, and a little more to end it and tell of it (F40)."""
    assert 600 < seconds(Step.SETUP, SPEC) <= 720
    assert seconds(Step.CHECK, SPEC) == seconds(Step.CHECK, ClusterSpec(name="demo"))


def test_another_text_runs_the_script_and_the_check_again(tmp_path: Path) -> None:
    """A changed script changes the documents of those two steps, and its text is in the first alone (C9, X4)."""
    wanted = load(spec(tmp_path))
    before = {step: step_document(wanted, step, "o/p/s", MADE) for step in Step if step is not Step.MACHINES}
    (tmp_path / "setup.sh").write_text("hunter2\n")
    after = {step: step_document(wanted, step, "o/p/s", MADE) for step in before}
    assert [step for step in before if before[step] != after[step]] == ["setup", "check"]
    assert [step for step in after if "hunter2" in after[step]] == ["setup"]
    assert "hunter2" not in repr(StepInput.model_validate_json(after[Step.SETUP]))


def properties(result: str, code: int, status: int, *log: str) -> list[str]:
    """What a node tells of a script that ended 2.4 s after its start."""
    times = ["ExecMainStartTimestampMonotonic=1000000", "ExecMainExitTimestampMonotonic=3400000"]
    return [*times, f"ExecMainCode={code}", f"ExecMainStatus={status}", f"Result={result}", "log", *log]


@pytest.mark.parametrize(
    ("lines", "reason", "fact"),
    [
        (properties("exit-code", 1, 3), "Failed", "ended with exit status 3 after 2 s on node-1"),
        (properties("signal", 2, 9), "Killed", "was killed by SIGKILL after 2 s on node-1"),
        (properties("timeout", 2, 9), "OutOfTime", "did not end in 600 s and was killed on node-1"),
        (properties("resources", 0, 0), "NotRun", "could not be run (resources) on node-1"),
        ([], "NotRun", "systemd says nothing of it"),
    ],
)
def test_how_it_ended_is_told(lines: list[str], reason: str, fact: str) -> None:
    """Exit status or signal, seconds, node and remedy are told (C9, X5, F32)."""
    condition = ended(SPEC, "node-1", lines)
    assert (condition.status, condition.reason, condition.node) == (Status.FALSE, reason, "node-1")
    assert fact in condition.message
    assert "correct /home/me/setup.sh, then `runcrate-iac retry demo`" in condition.remedy


def test_a_success_that_could_not_be_noted_is_one() -> None:
    """A script that ran to its end is not one that could not be run (C9, X5)."""
    condition = ended(SPEC, "node-1", properties("exit-code", 1, 0))
    assert (condition.status, condition.reason) == (Status.FALSE, "NotNoted")
    assert condition.message == "the set-up script succeeded after 2 s, but that could not be noted on node-1"


@pytest.mark.parametrize(("status", "reason"), [(0, "NotNoted"), (3, "Failed")])
def test_a_full_disk_is_a_fact(status: int, reason: str) -> None:
    """However the script ended, a full disk is told with what it has left, and room is to be made (C9, X5)."""
    told = properties("exit-code", 1, status)
    condition = ended(SPEC, "node-1", ["LeftBlocks=3", "BlockBytes=4096", *told])
    assert condition.reason == reason
    assert condition.message.endswith(" on node-1, whose disk is full (12 KiB left)")
    assert condition.remedy.startswith("make room there, or correct /home/me/setup.sh, then ")
    assert ended(SPEC, "node-1", ["LeftBlocks=256", "BlockBytes=4096", *told]) == ended(SPEC, "node-1", told)


def test_success_is_a_condition_too() -> None:
    """A script that succeeded now or before is well (C9)."""
    assert ended(SPEC, "node-1", ["done"]) == checked(SPEC, "node-1", done=True)
    assert checked(SPEC, "node-1", done=True).status is Status.TRUE


@pytest.mark.parametrize("line", ["done", "log"])
def test_what_it_prints_is_not_how_it_ended(line: str) -> None:
    """A script that says that it is done and then fails has failed (C9, F32)."""
    condition = ended(SPEC, "node-1", properties("exit-code", 1, 3, line))
    assert (condition.status, condition.reason, condition.log) == (Status.FALSE, "Failed", (line,))


def test_its_last_lines_are_told_plainly() -> None:
    """At most five short lines, without colours or other control characters (F29, G4)."""
    lines = [*(f"line {number}" for number in range(9)), "", "\x1b[31mred\x1b[0m\x07", "x" * 4000]
    condition = ended(SPEC, "node-1", properties("exit-code", 1, 1, *lines))
    assert condition.log == ("line 6", "line 7", "line 8", "red", "x" * 160)
    assert sentences([condition]).splitlines()[1:3] == ["    line 6", "    line 7"]


def test_many_nodes_that_failed_are_told_shortly() -> None:
    """Of many nodes each has its sentence, and the first few their lines (X5)."""
    one = Condition(type="SetUp", status=Status.FALSE, reason="Failed", message="failed", log=("why",))
    told = sentences([one.model_copy(update={"node": f"node-{index}"}) for index in range(64)]).splitlines()
    assert (len(told), told.count("    why")) == (67, 3)


def test_what_a_node_gets_is_shell() -> None:
    """Every script of the step is accepted by a POSIX shell (F29)."""
    names = ("unit", "run", "script", "log", "wanted", "done", "mark", "files", "lines", "cluster_id")
    for path in bundled("templates").glob("setup/*.sh.j2"):
        text = render(f"setup/{path.name}", **dict.fromkeys(names, "x"))
        done = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{path.name}: {done.stderr}"
