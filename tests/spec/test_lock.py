"""One command at a time on a cluster, and one step: neither crosses the other (F17)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from threading import Thread

import pytest

from runcrate_iac import lock
from runcrate_iac.cli import check
from runcrate_iac.engine import transaction
from runcrate_iac.errors import Refused, StepFailed
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.ledger.view import View
from runcrate_iac.machines import __main__ as machines
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.documents import MachinesJob
from runcrate_iac.model.lifecycle import Happened, State
from runcrate_iac.model.network import Machine
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.progress import Event, Report, Step
from runcrate_iac.model.spec import MachineSpec, parse
from tests.engine.plugins.fakecloud import offer

SPEC = parse({"name": "demo", "nodes": 2})
OWNER = "organization/p/s"


def quiet(message: str, node: str | None) -> None:
    """No news."""


def ignored(event: Event) -> None:
    """No news."""


def reserved(*happened: Happened) -> View:
    """A cluster of plain Pulumi's, and what happened to it."""
    facts = {"owner": OWNER, "spec": SPEC.model_dump(mode="json"), "price_per_hour": "5"}
    ledger = Ledger()
    view = ledger.record("demo", "demo-1", Happened.RESERVED, **facts, deadline="2126-01-01T00:25:00Z")
    for one in happened:
        view = ledger.record("demo", "demo-1", one)
    return view


def state() -> State:
    """The cluster's, as the ledger has it."""
    view = Ledger().latest("demo")
    assert view
    return view.state


def test_a_command_waits_for_a_step_that_is_ending() -> None:
    """A step that ends in some seconds, as that of a killed Pulumi does, is waited for, and told of (X2)."""
    held, told = ExitStack(), list[str]()
    held.enter_context(lock.at_work("demo", "machines", quiet, 0))

    def report(message: str, node: str | None) -> None:  # noqa: ARG001
        told.append(message)
        Thread(target=held.close).start()

    with lock.at_work("demo", "down", report, 10):
        assert "`machines` is working on it, process" in told[0]


def test_down_is_refused_while_a_step_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """`down` of a cluster whose machines plain Pulumi is asking for names the process, and ends nothing (F17, X1)."""
    monkeypatch.setattr(transaction, "COMMAND_WAITS", 0)
    reserved()
    with (
        lock.at_work("demo", "machines", quiet, 0),
        pytest.raises(Refused, match="`machines` is working on it") as error,
    ):
        transaction.down("demo", None, ignored)
    assert "kill " in error.value.remedy
    assert state() is State.PROVISIONING
    transaction.down("demo", None, ignored)
    assert state() is State.TERMINATED


def test_a_cluster_whose_stack_is_gone_is_ended_on_demand() -> None:
    """`down` of another stack's cluster says how, where that stack is gone, and does it when told so (C7, X1)."""
    reserved(Happened.JOINED)
    with pytest.raises(Refused, match="belongs to the Pulumi stack organization/p/s") as error:
        transaction.down("demo", None, ignored)
    assert "runcrate-iac down demo --stack-gone" in error.value.remedy
    transaction.down("demo", None, ignored, stack_gone=True)
    assert state() is State.TERMINATED


def test_a_check_is_refused_while_a_step_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """`status --check` while plain Pulumi installs software does not call a cluster degraded that is not done (C9)."""
    monkeypatch.setattr(lock, "COMMAND_WAITS", 0)
    view = reserved(Happened.JOINED)
    with lock.at_work("demo", "software", quiet, 0), pytest.raises(Refused, match="`software` is working on it"):
        check.run(view, "status --check", as_json=True)
    assert state() is State.INSTALLING


def test_a_step_keeps_its_clusters_machines_from_gc() -> None:
    """While a step works nobody's machines of that name are taken for forgotten ones (X1)."""
    with lock.at_work("demo", "machines", quiet, 0):
        assert "`machines` is working on it" in lock.busy()["demo"]
    assert lock.busy() == {}


class Crossed:
    """A provider whose machines come up after another process, such as one without locks, has ended the cluster."""

    name = "crossed"
    listing_delay = 0.0

    def __init__(self, *, fails: bool) -> None:
        """``fails``: the second machine does not come up either."""
        self.fails = fails
        self.made: dict[int, Machine] = {}

    def offers(self, machine: MachineSpec, nodes: int) -> Sequence[Offer]:
        """As many as are asked for."""
        return [offer(self.name, machine, nodes)]

    async def create(self, request: Reservation, index: int, report: Report) -> Machine:  # noqa: ARG002
        """Make it late."""
        self.made[index] = Machine(index=index, id=f"m{index}", host=f"192.0.2.{index}")
        if index == 1:
            for happened in (Happened.TERMINATE_ASKED, Happened.RELEASED):
                Ledger().record("demo", request.cluster_id, happened)
            if self.fails:
                raise StepFailed("no answer")
        return self.made[index]

    async def list(self, cluster_id: str) -> Sequence[Machine]:  # noqa: ARG002
        """What there is."""
        return list(self.made.values())

    async def delete(self, machine: Machine, report: Report) -> None:  # noqa: ARG002
        """Delete it."""
        del self.made[machine.index]


@pytest.mark.parametrize("fails", [False, True])
def test_machines_of_a_cluster_that_was_ended_are_released(capsys: pytest.CaptureFixture[str], *, fails: bool) -> None:
    """Whether they came up or not, none is left under the mark of a cluster that is over, and the step fails (X1)."""
    cloud = Crossed(fails=fails)
    with pytest.raises(StepFailed, match="no answer" if fails else "ended while its machines came up"):
        machines._reserve(MachinesJob(spec=SPEC, owner=OWNER), cloud, Ledger(), Feed("demo", Step.MACHINES))
    assert cloud.made == {}
    assert state() is State.TERMINATED
    assert capsys.readouterr().out == ""
    gone = [entry.data["machine"] for entry in Ledger().entries("demo") if entry.type == "machine_gone"]
    assert sorted(gone) == ["m0", "m1"]
