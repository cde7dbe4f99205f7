"""Whole, or everything released: with the real Pulumi engine and a provider whose machines cost nothing."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from datetime import timedelta

import pytest
import yaml

from runcrate_iac.engine.program import owner
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.specfile import load
from tests.engine.lab import FAILS, HANGS, RUN, Lab
from tests.machines import until

pytestmark = pytest.mark.engine


def test_a_failing_machine_releases_every_machine(lab: Lab) -> None:
    """One machine that does not start ends the attempt: exit 3, the node is named, nothing is left (C8, X1)."""
    code, _, stderr = lab.run("up", lab.spec(faults=[FAILS]), "--yes")
    assert (code, lab.machines, lab.state()) == (3, [], "failed")
    assert "faults are injected: failed (node-1)" in stderr
    assert "node-1: its machine failed to start" in stderr
    assert "released 2 of 2 machines, nothing is billed" in stderr


def test_the_receipt_proves_each_machine_gone(lab: Lab) -> None:
    """The receipt lists both machines with the provider's answer and cost 0 (X1)."""
    lab.run("up", lab.spec(faults=[FAILS]), "--yes")
    receipt = json.loads(lab.run("receipt", "lab", "--json")[1])
    assert receipt["all_gone"]
    assert [(m["node"], float(m["cost"]["usd"]), bool(m["proof"])) for m in receipt["machines"]] == [
        ("node-0", 0.0, True),
        ("node-1", 0.0, True),
    ]


def test_a_join_that_misses_its_deadline_releases_every_machine(lab: Lab) -> None:
    """Machines that never answer are released soon after the deadline, and both are named (C8)."""
    begun = time.monotonic()
    code, _, stderr = lab.run("up", lab.spec(join_timeout=6), "--yes")
    assert (code, lab.machines, lab.state()) == (3, [], "failed")
    assert time.monotonic() - begun < 40
    assert "node-0" in stderr
    assert "node-1" in stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_rolls_back(lab: Lab, number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM or a closed terminal while machines start: all are released, exit 3 (C8, F10)."""
    process = lab.start("up", lab.spec(join_timeout=600, faults=[HANGS]), "--yes")
    until(lambda: len(lab.machines) == 2, "two machines")
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert "rolling back, press again to leave now" in stderr
    assert (process.returncode, lab.machines, lab.state()) == (3, [], "failed")


def test_a_second_interrupt_leaves_at_once_and_down_finishes(lab: Lab) -> None:
    """Ctrl-C twice leaves with exit 5; the next `down` leaves the provider empty (F10)."""
    process = lab.start("up", lab.spec(join_timeout=600, faults=[HANGS]), "--yes")
    until(lambda: len(lab.machines) == 2, "two machines")
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    if process.returncode == 5:
        assert "runcrate-iac down lab" in stderr
    assert lab.run("down", "lab", "--yes")[0] == 0
    assert lab.machines == []


def test_a_killed_up_is_finished_by_down(lab: Lab) -> None:
    """After kill -9 in the middle of `up`, `down` releases what was made and ends what still runs (X2)."""
    process = lab.start("up", lab.spec(join_timeout=600, faults=[HANGS]), "--yes")
    until(lambda: len(lab.machines) == 2, "two machines")
    process.kill()
    process.communicate(timeout=10)
    code, _, stderr = lab.run("down", "lab", "--yes")
    assert (code, lab.machines, lab.state()) == (0, [], "terminated"), stderr
    assert lab.processes() == []


def test_a_killed_up_is_begun_anew_past_its_deadline(lab: Lab) -> None:
    """What a power cut left yesterday is released by the next `up`, which fails for its own reason (C8, X2)."""
    (lab.root / "home").mkdir()
    spec = load(lab.spec(join_timeout=600, faults=[FAILS]))
    ledger = Ledger(lab.root / "home" / "ledger.db")
    facts = {"owner": owner("lab"), "spec": spec.model_dump(mode="json"), "price_per_hour": "5"}
    ledger.record("lab", "lab-1", Happened.RESERVED, **facts, deadline=ledger.now() - timedelta(days=1))
    ledger.note("lab", "lab-1", Note.ASKED)
    ledger.close()
    (lab.root / "cloud" / "lab-1.node-0").touch()
    code, _, stderr = lab.run("up", lab.root / "lab.yaml", "--yes")
    assert (code, lab.machines) == (3, []), stderr
    assert "node-1: its machine failed to start" in stderr
    happened = [entry["type"] for entry in json.loads(lab.run("events", "lab", "--json")[1])]
    assert [one for one in happened if one in ("reserved", "released")] == ["reserved", "released"] * 2


def test_a_closed_terminal_rolls_back(lab: Lab) -> None:
    """When a shell's terminal is closed every machine is released, though nothing can be printed any more (F10)."""
    leader, follower = os.openpty()
    shell = ["setsid", "--ctty", "bash", "--norc", "-i"]
    process = subprocess.Popen(shell, env=lab.env, stdin=follower, stdout=follower, stderr=follower, cwd=lab.root)
    os.close(follower)
    os.write(
        leader, shlex.join([*RUN, "up", str(lab.spec(join_timeout=600, faults=[HANGS])), "--yes"]).encode() + b"\n"
    )
    until(lambda: _shown(leader) and len(lab.machines) == 2, "two machines")
    os.close(leader)
    process.wait(timeout=60)
    until(lambda: not lab.processes(), "the end of what it started", 60)
    assert (lab.machines, lab.state()) == ([], "failed")


def _shown(leader: int) -> bool:
    """Take what is on the terminal, as the one that shows it does."""
    os.set_blocking(leader, False)
    with suppress(BlockingIOError):
        while os.read(leader, 4096):
            pass
    return True


def test_a_new_attempt_follows_a_killed_one_that_was_released(lab: Lab) -> None:
    """After kill -9 and `down`, the next `up` of that name is a whole new attempt (X2, F14)."""
    process = lab.start("up", lab.spec(join_timeout=600, faults=[HANGS]), "--yes")
    until(lambda: len(lab.machines) == 2, "two machines")
    process.kill()
    process.communicate(timeout=10)
    assert lab.run("down", "lab", "--yes")[0] == 0
    code, _, stderr = lab.run("up", lab.spec(faults=[FAILS]), "--yes")
    assert (code, lab.machines) == (3, [])
    assert "node-1: its machine failed to start" in stderr


def test_a_passphrase_in_the_shell_does_no_harm(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own Pulumi settings neither break our stack nor are needed by it (C24)."""
    assert lab.run("preview", lab.spec())[0] == 0
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "of another stack")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///nowhere")
    assert lab.run("preview", lab.spec())[0] == 0


def test_two_commands_at_once_are_one_and_a_refusal(lab: Lab) -> None:
    """While `up` works on a name, `up` and `down` of it are refused with who holds it (F17)."""
    process = lab.start("up", lab.spec(join_timeout=600, faults=[HANGS]), "--yes")
    until(lambda: len(lab.machines) == 2, "two machines")
    for words in (("down", "lab", "--yes"), ("up", lab.spec(join_timeout=600, faults=[HANGS]), "--yes")):
        code, _, stderr = lab.run(*words)
        assert code == 6
        assert f"process {process.pid}" in stderr
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert lab.machines == []


def test_preview_reserves_nothing_and_tells_the_price(lab: Lab) -> None:
    """Preview shows the whole cluster's price per hour, and the provider is not asked for machines (X7, C3)."""
    code, stdout, _ = lab.run("preview", lab.spec(nodes=4))
    assert code == 0
    assert "$10.00 per hour" in stdout
    assert "$2.50 per machine" in stdout
    assert lab.machines == []


def test_a_shape_without_offer_is_refused_before_anything(lab: Lab) -> None:
    """More machines than there are: exit 2, and nothing was reserved (C4)."""
    code, _, stderr = lab.run("up", lab.spec(nodes=64), "--yes")
    assert (code, lab.machines) == (2, [])
    assert "no offer" in stderr


def test_a_set_up_script_that_is_not_there_reserves_nothing(lab: Lab) -> None:
    """A script that can't be read: exit 2 with the field, and no machine was asked for (C9)."""
    code, _, stderr = lab.run("up", lab.spec(setup="setup.sh"), "--yes")
    assert (code, lab.machines) == (2, [])
    assert f"setup: {lab.root / 'setup.sh'}: No such file" in stderr


def test_a_retry_of_what_never_joined_is_refused(lab: Lab) -> None:
    """After an attempt that was released there is nothing to retry: exit 6, and nothing starts (C8, C9)."""
    lab.run("up", lab.spec(faults=[FAILS]), "--yes")
    code, stdout, _ = lab.run("retry", "lab", "--json")
    assert (code, lab.machines) == (6, [])
    assert "lab is not up" in json.loads(stdout)["error"]["message"]


def test_all_that_up_tells_is_json_with_json(lab: Lab) -> None:
    """With --json each line of news is a document, the price before the question too, and so is the end (C24, C3)."""
    code, stdout, stderr = lab.run("up", lab.spec(faults=[FAILS]), "--yes", "--json")
    news = [json.loads(line) for line in stderr.splitlines()]
    assert (code, json.loads(stdout)["error"]["exit_code"]) == (3, 3)
    assert "$5.00 per hour" in news[0]["message"]


def test_a_wrong_spec_is_one_document_with_json(lab: Lab) -> None:
    """With --json an error is a document with its kind, message and exit code (C24)."""
    code, stdout, _ = lab.run("up", lab.spec(nodes=1), "--yes", "--json")
    error = json.loads(stdout)["error"]
    assert (code, error["kind"], error["exit_code"]) == (2, "SpecError", 2)


def test_down_of_nothing_is_done(lab: Lab) -> None:
    """`down` of a name that is not up says so and exits 0 (C7)."""
    code, stdout, _ = lab.run("down", "nobody", "--yes")
    assert code == 0
    assert "nothing to do" in stdout


def test_a_full_disk_keeps_no_machine_alive(lab: Lab) -> None:
    """An interrupt on a disk that is full releases every machine; with room again `down` notes it (X1, X6)."""
    home = lab.root / "home"
    home.mkdir()
    run = shlex.join(RUN)
    script = f"""
        set -u
        mount -t tmpfs -o size=8m none {home} || exit 77
        {run} up {lab.spec(join_timeout=600, faults=[HANGS])} --yes &
        while [ "$(find {lab.root}/cloud -name '*.node-*' | wc -l)" != 2 ]; do sleep 0.1; done
        cat /dev/zero > {home}/fill
        kill -TERM $!; wait $!; echo "code $?"
        ls {lab.root}/cloud | grep -c node-
        rm {home}/fill
        {run} down lab --yes; {run} receipt lab --json
    """
    command = ["unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)), "sh", "-c", script]
    done = subprocess.run(command, env=lab.env, capture_output=True, text=True, check=False, cwd=lab.root, timeout=120)
    if done.returncode == 77:
        pytest.skip("no file system can be mounted here")
    code, left, *_, receipt = done.stdout.splitlines()
    assert (code, left) == ("code 3", "0"), done.stderr
    assert "released 2 of 2 machines, nothing is billed" in done.stderr
    assert "not noted: " in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(receipt)["all_gone"]


def test_a_lost_answer_is_no_machine_too_many(lab: Lab) -> None:
    """The provider makes node-1's machine and drops the connection: it is found, and released once (F12, X8)."""
    dropped = {"fault": "dropped", "call": "create", "node": "node-1", "done": True}
    lab.run("up", lab.spec(faults=[dropped]), "--yes")
    receipt = json.loads(lab.run("receipt", "lab", "--json")[1])
    assert (lab.machines, receipt["all_gone"]) == ([], True)
    assert [machine["node"] for machine in receipt["machines"]] == ["node-0", "node-1"]


def test_a_delete_that_lies_is_not_believed_by_any_command(lab: Lab) -> None:
    """Delete says yes twice and the machine stays: once to `up`, and the count goes on in its rollback (F14, X8)."""
    lie = {"fault": "lie", "node": "node-0", "times": 2}
    code, _, stderr = lab.run("up", lab.spec(faults=[FAILS, lie]), "--yes")
    assert (code, lab.machines, lab.state()) == (3, [], "failed")
    assert "node-0) is still there" in stderr


def test_a_rehearsal_ends_where_no_faults_are_injected_any_more(lab: Lab) -> None:
    """`down --no-faults` releases a cluster whose provider would never do so, and whose list never answers (X8)."""
    silent = {"fault": "hang", "call": "list", "times": "always"}
    lie = {"fault": "lie", "times": "always"}
    process = lab.start("up", lab.spec(join_timeout=600, faults=[HANGS, silent, lie]), "--yes")
    until(lambda: len(lab.machines) == 2, "two machines")
    process.kill()
    process.communicate(timeout=10)
    code, _, stderr = lab.run("down", "lab", "--no-faults", "--yes")
    assert (code, lab.machines, lab.state()) == (0, [], "terminated"), stderr


def test_preview_says_that_faults_are_injected(lab: Lab) -> None:
    """Preview tells in one line what will be injected, here from a file beside the spec (X8)."""
    (lab.root / "faults.yaml").write_text(yaml.safe_dump([FAILS]))
    code, stdout, _ = lab.run("preview", lab.spec(faults="faults.yaml"))
    assert code == 0
    assert "faults are injected: failed (node-1)" in stdout
