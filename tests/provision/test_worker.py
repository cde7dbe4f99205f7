"""The worker, over real SSH on loopback: connecting, what it tells, how it ends."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Mark, Outcome, Step
from runcrate_iac.provision.job import Exit, Job, Line
from tests.provision.conftest import Loopback

WORKER = Path(__file__).parent / "worker.py"


@contextlib.contextmanager
def started(job: Job, *deploys: str) -> Iterator[subprocess.Popen[str]]:
    """The worker with these deploys, at work on the job."""
    command = [sys.executable, str(WORKER), *deploys]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdin
        process.stdin.write(job.model_dump_json() + "\n")
        process.stdin.flush()
        yield process


def work(job: Job, *deploys: str) -> tuple[int, list[Line], str]:
    """Run the worker with these deploys: exit code, every line it wrote, and its log."""
    with started(job, *deploys) as process:
        assert process.stdout
        assert process.stderr
        lines = [Line.model_validate_json(text) for text in process.stdout]
        return process.wait(60), lines, process.stderr.read()


def outcome(lines: list[Line]) -> Outcome:
    """The outcome, which is the last line and the only one."""
    (found,) = [line.outcome for line in lines if line.outcome]
    assert lines[-1].outcome == found
    return found


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield server.getsockname()[1]


def test_facts_and_findings_come_back(loopback: Loopback, job: Callable[..., Job]) -> None:
    """Each node is read over SSH at once, and what was found is in the outcome (C8)."""
    code, lines, log = work(job([loopback.server(), loopback.server()]), "probe.look")
    assert (code, outcome(lines).ok, outcome(lines).changed) == (Exit.CONVERGED, True, False), log
    assert {(c.node, c.message) for c in outcome(lines).conditions} == {("node-0", "one+two"), ("node-1", "one+two")}
    assert {line.event.node for line in lines if line.event and line.event.message == "connected"} == {
        "node-0",
        "node-1",
    }


@pytest.mark.parametrize("noise", ["\x1b[31mWelcome\x1b[0m\none\n", "one\nWelcome \x1b[0m"])
def test_noise_of_login_shells_is_no_answer(loopback: Loopback, job: Callable[..., Job], noise: str) -> None:
    """What .bashrc prints is not taken for a fact: escape codes, and what ends without a line break (F29)."""
    noisy = loopback.server(noise=noise)
    _, lines, _ = work(job([noisy, loopback.server()]), "probe.look")
    assert {c.message for c in outcome(lines).conditions} == {"one+two"}


def test_converging_twice_changes_nothing_the_second_time(
    loopback: Loopback, job: Callable[..., Job], tmp_path: Path
) -> None:
    """A file is written with its mode whatever the umask is, and only where it differs (G15)."""
    key = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII11VahKNh1bCc5MYqPmGdoBK0mPJmR6/gHuKUPWaLcg {tmp_path}"
    todo = job([loopback.server(), loopback.server()])
    todo = todo.model_copy(update={"spec": todo.spec.model_copy(update={"ssh_public_keys": (key,)})})
    _, lines, log = work(todo, "probe.write")
    assert outcome(lines).changed, log
    file = tmp_path / "node-1" / "file"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("it's\n$HOME\n", 0o640)
    assert not outcome(work(todo, "probe.write")[1]).changed
    file.chmod(0o600)
    assert outcome(work(todo, "probe.write")[1]).changed
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_failed_operation_stops_the_step_and_is_named(loopback: Loopback, job: Callable[..., Job]) -> None:
    """One node's failure ends the run after that operation, with node, operation and its last words (C8)."""
    code, lines, log = work(job([loopback.server(), loopback.server()]), "probe.fail")
    assert (code, outcome(lines).ok) == (Exit.OPERATION_FAILED, False)
    (condition,) = outcome(lines).conditions
    assert (condition.node, condition.reason) == ("node-1", "OperationFailed")
    assert "break" in condition.message
    assert "no such disk" in condition.message
    assert "never" not in "".join(line.event.message for line in lines if line.event), log


def test_only_protocol_lines_are_on_standard_output(loopback: Loopback, job: Callable[..., Job]) -> None:
    """What a deploy prints goes to the log, so that no line is anything but the protocol."""
    code, lines, log = work(job([loopback.server(), loopback.server()]), "probe.shout")
    assert code == Exit.CONVERGED
    assert lines[0].event
    assert lines[0].event.mark is Mark.STARTED
    assert "not a line of the protocol" in log


def test_a_machine_without_a_banner_holds_nobody_up(loopback: Loopback, job: Callable[..., Job], silent: int) -> None:
    """The others connect at once; at the deadline it alone is named, for its missing banner (F4)."""
    todo = job([loopback.server(), loopback.machine(silent), loopback.server()], seconds=6)
    started = time.monotonic()
    code, lines, _ = work(todo, "probe.look")
    assert code == Exit.NOT_CONNECTED
    assert time.monotonic() - started < 9
    (condition,) = outcome(lines).conditions
    assert (condition.node, condition.reason) == ("node-1", "OutOfTime")
    assert "no SSH banner" in condition.message
    connected = [line.event for line in lines if line.event and line.event.message == "connected"]
    assert {event.node for event in connected} == {"node-0", "node-2"}
    assert all(event.time.timestamp() < todo.deadline - 2 for event in connected)


def test_a_closed_port_is_tried_again_politely(job: Callable[..., Job], loopback: Loopback) -> None:
    """A machine that isn't there yet is tried until the deadline, and no more than once a second (G1)."""
    tried = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        with started(job([loopback.machine(server.getsockname()[1]), loopback.server()], seconds=7)) as process:
            while process.poll() is None:
                with contextlib.suppress(TimeoutError):
                    server.accept()[0].close()
                    tried.append(time.monotonic())
    assert len(tried) >= 2
    assert min(after - before for before, after in itertools.pairwise(tried)) >= 1


@pytest.mark.parametrize("step", [Step.JOIN, Step.SOFTWARE])
def test_a_refused_login_ends_the_wait_at_once(loopback: Loopback, job: Callable[..., Job], step: Step) -> None:
    """A node of the cluster that refuses a key is not offered it again, and machine and user are named (G1)."""
    started = time.monotonic()
    code, lines, _ = work(job([loopback.server(), loopback.server(authorized=False)], step=step), "probe.look")
    assert code == Exit.NOT_CONNECTED
    assert time.monotonic() - started < 10
    (condition,) = outcome(lines).conditions
    assert (condition.node, condition.reason) == ("node-1", "LoginRefused")
    assert "user root" in condition.message


@pytest.mark.parametrize(("refusals", "code"), [(2, Exit.CONVERGED), (9, Exit.NOT_CONNECTED)])
def test_a_new_machine_may_get_its_key_after_its_sshd_is_up(
    loopback: Loopback, job: Callable[..., Job], refusals: int, code: Exit
) -> None:
    """Where an agent of the cloud brings the key, refusals of the first minutes are told and waited for (C8, G1)."""
    todo = job([loopback.server(), loopback.server(refusals=refusals)], step=Step.JOIN)
    done, lines, log = work(todo.model_copy(update={"new": (0, 1)}), "--impatient", "probe.look")
    assert done == code, log
    said = "refuses the login of user root so far"
    told = [line.event for line in lines if line.event and line.event.message.endswith(said)]
    assert {event.node for event in told} == {"node-1"}
    if code is not Exit.CONVERGED:
        assert [(c.node, c.reason) for c in outcome(lines).conditions] == [("node-1", "LoginRefused")]


def test_a_machine_that_is_refused_does_not_wait_for_the_others(
    loopback: Loopback, job: Callable[..., Job], silent: int
) -> None:
    """One refused login ends the step in seconds, while another machine sends no banner yet (F16, F4)."""
    started = time.monotonic()
    todo = job([loopback.server(), loopback.server(authorized=False), loopback.machine(silent)])
    code, lines, _ = work(todo, "probe.look")
    assert code == Exit.NOT_CONNECTED
    assert time.monotonic() - started < 15
    assert [(c.node, c.reason) for c in outcome(lines).conditions] == [("node-1", "LoginRefused")]


@pytest.mark.parametrize("end", [Loopback.freeze, Loopback.kill])
def test_a_machine_that_goes_silent_ends_the_step(
    loopback: Loopback, doomed: Loopback, job: Callable[..., Job], end: Callable[[Loopback], None]
) -> None:
    """A machine that hangs or dies in the middle of a command is named, and nobody waits for the others (X1)."""
    with started(job([loopback.server(), doomed.server()]), "--impatient", "probe.hang") as process:
        assert process.stdout
        lines = []
        begun = time.monotonic()
        for text in process.stdout:
            lines.append(Line.model_validate_json(text))
            event = lines[-1].event
            if event and event.node == "node-1" and "handshake" in event.message:
                end(doomed)
                begun = time.monotonic()
        assert process.wait(10) == Exit.OPERATION_FAILED
    assert time.monotonic() - begun < 15
    (condition,) = outcome(lines).conditions
    assert (condition.node, condition.reason) == ("node-1", "ConnectionLost")
    assert "| wait (" in condition.message
    named = [line.event for line in lines if line.event and "not answered" in line.event.message]
    assert {event.node for event in named} == ({"node-1"} if end is Loopback.freeze else set())


def test_an_unknown_host_key_is_pinned_and_then_strict(loopback: Loopback, job: Callable[..., Job]) -> None:
    """The key of the first login is the only one accepted afterwards (C2)."""
    first, known = loopback.server(), loopback.server()
    unknown = first.model_copy(update={"host_key": None})
    todo = job([unknown, known])
    assert outcome(work(todo, "probe.look")[1]).ok
    assert f"node-0,[127.0.0.1]:{first.port} {first.host_key} " in todo.ssh_config.with_name("known_hosts").read_text()
    other = loopback.server()
    moved = unknown.model_copy(update={"host_key": other.host_key})
    code, lines, _ = work(job([moved, known]), "probe.look")
    assert code == Exit.NOT_CONNECTED
    assert [(c.node, c.reason) for c in outcome(lines).conditions] == [("node-0", "HostKeyChanged")]


def test_running_out_of_time_names_what_each_node_waited_for(loopback: Loopback, job: Callable[..., Job]) -> None:
    """In the middle of an operation the deadline ends the step, and the reason is the node's own (C8)."""
    started = time.monotonic()
    code, lines, _ = work(job([loopback.server(), loopback.server()], seconds=4), "probe.hang")
    assert code == Exit.OPERATION_FAILED
    assert time.monotonic() - started < 8
    assert {(c.node, c.message) for c in outcome(lines).conditions} == {
        ("node-0", "out of time: no handshake with anyone yet"),
        ("node-1", "out of time: no handshake with anyone yet"),
    }


def test_closing_standard_input_cancels(loopback: Loopback, job: Callable[..., Job]) -> None:
    """A worker whose parent is gone ends by itself and goes on changing nothing (X2)."""
    with started(job([loopback.server(), loopback.server()]), "probe.hang") as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        process.stdin.close()
        assert process.wait(10) == Exit.BROKEN


@pytest.mark.parametrize("text", ["", "{}", '{"version": 2}', "secret-that-must-not-be-echoed"])
def test_what_is_no_job_is_refused(text: str) -> None:
    """Something else on standard input is refused with its exit code, and is not echoed."""
    command = [sys.executable, "-m", "runcrate_iac.provision.worker"]
    done = subprocess.run(command, input=text + "\n", capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == Exit.JOB_REFUSED
    assert "secret" not in done.stdout + done.stderr


def test_importing_the_package_brings_neither_gevent_nor_pyinfra() -> None:
    """The wall: what runs beside Pulumi's gRPC has no gevent in it (measured: it would hang)."""
    program = (
        "import runcrate_iac, runcrate_iac.provision.run, runcrate_iac.provision.ssh, json, sys\n"
        "print(json.dumps([name for name in sys.modules if name.split('.')[0] in ('gevent', 'pyinfra', 'paramiko')]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_a_job_survives_its_journey(job: Callable[..., Job]) -> None:
    """A job is the same on the other side of the pipe."""
    todo = job([Machine(index=0, id="a", host="192.0.2.1"), Machine(index=0, id="b", host="192.0.2.2")])
    assert Job.model_validate_json(todo.model_dump_json()) == todo
