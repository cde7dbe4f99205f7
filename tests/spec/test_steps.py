"""What a step's process does around its work: events, news, and the email when the cluster is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runcrate_iac import steps
from runcrate_iac.components.documents import relevant, repairs
from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed, follow
from runcrate_iac.ledger.view import Note
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.documents import Made, StepInput
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Mark, Outcome, Step
from runcrate_iac.model.spec import Software, parse
from runcrate_iac.notify import refuse_unsendable
from runcrate_iac.provision import __main__ as process

LOST = Condition(
    type="Gpus",
    status=Status.FALSE,
    reason="WrongGpuCount",
    message="7 of 8 GPUs on node-1",
    remedy="replace it",
    node="node-1",
)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger of a computer with one reserved cluster that wants an email, and a mail system that keeps it."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path / "home"))
    program = tmp_path / "bin" / "sendmail"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/mail\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    spec = {"name": "demo", "nodes": 2, "software": "slurm", "notify": ["me@example.org"]}
    data: dict[str, Any] = {"owner": "o/p/s", "spec": spec, "price_per_hour": "1"}
    found = Ledger()
    found.record("demo", "demo-1", Happened.RESERVED, **data, deadline="2026-01-01T00:25:00+00:00")
    return found


def step(ledger: Ledger, which: Step, *conditions: Condition) -> State:
    """Run a step that finds these conditions; the state after it."""
    outcome = Outcome(step=which, ok=not conditions, conditions=conditions)
    steps.record(ledger, "demo", which, lambda: outcome, Feed("demo", which, lambda event: None))
    view = ledger.current("demo")
    assert view is not None
    return view.state


def test_a_join_knows_the_software_that_follows(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses machines that run such a software for others, though it is not run again for another one (C9)."""
    given: list[StepInput] = []

    def perform(which: Step, document: StepInput, *_: object, **__: object) -> Outcome:
        given.append(document)
        return Outcome(step=which, ok=False)

    monkeypatch.setattr(process, "perform", perform)
    view = ledger.current("demo")
    assert view is not None
    machines = tuple(Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}") for i in range(2))
    made = Made(cluster_id="demo-1", deadline=view.deadline, price_per_hour=view.price_per_hour, machines=machines)
    document = StepInput(spec=relevant(view.spec, Step.JOIN), made=made)
    process._recorded(Step.JOIN, document)
    assert (document.spec.software, given[0].spec.software) == (Software.NONE, Software.SLURM)


def test_the_steps_in_order_lead_to_ready(ledger: Ledger) -> None:
    """Join makes it installing, and only the check makes it ready (C5, C6)."""
    states = [step(ledger, which) for which in (Step.JOIN, Step.STORAGE, Step.SOFTWARE, Step.CHECK)]
    assert states == [State.INSTALLING, State.INSTALLING, State.INSTALLING, State.READY]


def test_ready_sends_an_email_once(ledger: Ledger, tmp_path: Path) -> None:
    """When the cluster becomes ready an email goes out, and the ledger knows (C6)."""
    step(ledger, Step.JOIN)
    assert not (tmp_path / "mail").exists()
    step(ledger, Step.CHECK)
    mail = (tmp_path / "mail").read_text()
    assert "To: me@example.org" in mail
    assert "demo is ready" in mail
    step(ledger, Step.CHECK)
    assert [entry.data["error"] for entry in ledger.entries("demo") if entry.type == Note.EMAILED] == [""]


def test_a_mail_system_that_fails_is_noted_and_does_no_harm(ledger: Ledger, tmp_path: Path) -> None:
    """An email that is not taken is in the ledger with the reason; the cluster is ready all the same (C6)."""
    (tmp_path / "bin" / "sendmail").write_text("#!/bin/sh\nexit 75\n")
    step(ledger, Step.JOIN)
    assert step(ledger, Step.CHECK) is State.READY
    (entry,) = [entry for entry in ledger.entries("demo") if entry.type == Note.EMAILED]
    assert "75" in entry.data["error"]


def test_an_email_that_could_not_go_out_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mail system a spec with `notify` is refused before anything is reserved (C6)."""
    monkeypatch.setattr("runcrate_iac.notify._sendmail", lambda: None)
    with pytest.raises(SpecError, match="notify"):
        refuse_unsendable(parse({"name": "demo", "notify": ["me@example.org"]}))


def test_a_failed_step_degrades_and_a_repeated_one_repairs(ledger: Ledger) -> None:
    """Software failing makes it degraded with node, fact and remedy; run again and checked it is ready (C9, X5)."""
    step(ledger, Step.JOIN)
    assert step(ledger, Step.SOFTWARE, LOST) is State.DEGRADED
    view = ledger.current("demo")
    assert view is not None
    assert view.conditions == [LOST]
    assert step(ledger, Step.SOFTWARE) is State.INSTALLING
    assert step(ledger, Step.CHECK) is State.READY


def broken_off(ledger: Ledger, which: Step, error: BaseException) -> State:
    """Run a step that this ends; the state after it."""

    def work() -> Outcome:
        raise error

    with pytest.raises(type(error)):
        steps.record(ledger, "demo", which, work, Feed("demo", which, lambda event: None))
    view = ledger.current("demo")
    assert view is not None
    return view.state


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143), OSError("no space left")])
def test_a_check_that_is_broken_off_leaves_a_degraded_cluster_degraded(ledger: Ledger, error: BaseException) -> None:
    """Ctrl-C, SIGTERM or an error in a check of it changes neither its state nor what was found before (C9)."""
    step(ledger, Step.JOIN)
    step(ledger, Step.CHECK, LOST)
    assert broken_off(ledger, Step.CHECK, error) is State.DEGRADED
    view = ledger.current("demo")
    assert view is not None
    assert view.conditions == [LOST]


def test_a_step_that_is_broken_off_says_so_in_the_state(ledger: Ledger) -> None:
    """Before the join nothing is degraded, after it what is not whole is; a ready one that is looked at stays (C9)."""
    assert broken_off(ledger, Step.JOIN, KeyboardInterrupt()) is State.PROVISIONING
    step(ledger, Step.JOIN)
    assert broken_off(ledger, Step.STORAGE, KeyboardInterrupt()) is State.DEGRADED
    step(ledger, Step.STORAGE)
    step(ledger, Step.CHECK)
    assert broken_off(ledger, Step.CHECK, KeyboardInterrupt()) is State.READY


def test_the_news_of_a_step_can_be_followed(ledger: Ledger) -> None:
    """Whoever watches sees the step start, what is wrong on which node, and the end (X5)."""
    step(ledger, Step.JOIN)
    step(ledger, Step.CHECK, LOST)
    news = [(event.step, event.mark, event.node) for event in follow("demo", 0, lambda: False)]
    assert news == [
        (Step.JOIN, Mark.STARTED, None),
        (Step.JOIN, Mark.DONE, None),
        (Step.CHECK, Mark.STARTED, None),
        (Step.CHECK, Mark.FAILED, "node-1"),
        (Step.CHECK, Mark.FAILED, None),
    ]


def test_a_failed_set_up_script_degrades_a_ready_cluster(ledger: Ledger) -> None:
    """A script that fails after a change makes it degraded; once it and the check are well it is ready (C9)."""
    step(ledger, Step.JOIN)
    step(ledger, Step.CHECK)
    assert step(ledger, Step.SETUP, LOST) is State.DEGRADED
    assert [step(ledger, which) for which in (Step.SETUP, Step.CHECK)] == [State.INSTALLING, State.READY]


def found(kind: str) -> Condition:
    """A finding of this type."""
    return LOST.model_copy(update={"type": kind})


@pytest.mark.parametrize(
    ("kinds", "needed"),
    [
        (["MpiRuns"], ["software", "setup", "check"]),
        (["SetUp"], ["setup", "check"]),
        (["MpiRuns", "SharedMounted"], ["storage", "software", "setup", "check"]),
        (["Joined"], ["join", "storage", "software", "setup", "check"]),
        (["Checked"], list(Step)),
    ],
)
def test_what_a_check_finds_says_which_steps_run_again(ledger: Ledger, kinds: list[str], needed: list[str]) -> None:
    """A retry begins with the step that mends what was found, and leaves those before it alone (X5)."""
    step(ledger, Step.JOIN)
    step(ledger, Step.CHECK)
    before = [repairs("demo", "o/p/s", which) for which in Step]
    step(ledger, Step.CHECK, *map(found, kinds))
    after = [repairs("demo", "o/p/s", which) for which in Step]
    assert [which for which, old, new in zip(Step, before, after, strict=True) if old != new] == needed


def test_a_step_that_failed_runs_again_whatever_is_declared(ledger: Ledger) -> None:
    """After a failed update the step runs again even where the spec goes back to what it was (C9)."""
    step(ledger, Step.JOIN)
    before = repairs("demo", "o/p/s", Step.SETUP)
    step(ledger, Step.SETUP, found("SetUp"))
    assert repairs("demo", "o/p/s", Step.SETUP) > before
    assert repairs("demo", "o/p/s", Step.SOFTWARE) == before
