"""A ready cluster of no real machines: its provider, its ledger and its time, for tests of what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.receipt import receipt
from runcrate_iac.ledger.view import View
from runcrate_iac.machines import growth, step
from runcrate_iac.machines.faulty import Faulty
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.provider import Provider
from runcrate_iac.model.documents import MachinesJob, Made
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.model.receipt import MachineReceipt
from runcrate_iac.model.spec import ClusterSpec, parse
from tests.clock import Clock
from tests.cloud import Cloud


def quiet(message: str, node: str | None) -> None:
    """No news."""


class World:
    """A ready cluster of two machines at 2.50 USD per hour, its provider, and its ledger."""

    def __init__(self, folder: Path, clock: Clock, **cloud: Any) -> None:
        """Both machines are up and joined."""
        self.clock, self.folder = clock, folder
        self.cloud = Cloud(clock, **cloud)
        self.ledger = Ledger(folder / "ledger.db", now=clock.now)
        self.reserve(2)
        self.ledger.record("lab", self.view.cluster_id, Happened.JOINED)
        self.ledger.record("lab", self.view.cluster_id, Happened.CHECKED)

    @property
    def view(self) -> View:
        """The cluster as the ledger tells it."""
        view = self.ledger.latest("lab")
        assert view
        return view

    def spec(self, nodes: int, faults: list[dict[str, Any]]) -> ClusterSpec:
        """Its spec with so many nodes."""
        return parse({"name": "lab", "nodes": nodes, "software": "slurm", "faults": faults, "join_timeout": 300})

    def provider(self, spec: ClusterSpec) -> Provider:
        """The provider as a new process finds it."""
        epoch = lambda: self.clock.now().timestamp()  # noqa: E731
        return Faulty(self.cloud, spec.faults, self.folder / "faults.json", epoch) if spec.faults else self.cloud

    def reserve(self, nodes: int, *faults: dict[str, Any]) -> Made:
        """The machines step."""
        spec = self.spec(nodes, list(faults))
        job = MachinesJob(spec=spec, owner="o/p/s")
        return self.clock.run(step.reserve(job, self.provider(spec), self.ledger, quiet))

    def declare(self, **change: Any) -> None:
        """The machines step of the same cluster, of which something else is declared."""
        job = MachinesJob(spec=parse(self.view.spec.model_dump(mode="json") | change), owner="o/p/s")
        self.clock.run(step.reserve(job, self.cloud, self.ledger, quiet))

    def job(self, resource: str) -> MachinesJob:
        """The cluster as a resource declares it."""
        return MachinesJob(spec=self.view.spec, owner="o/p/s", resource=resource)

    def given(self, machines: Sequence[Machine], name: str = "own") -> Made:
        """The machines step of another cluster, of the user's own machines."""
        spec = parse({"name": name, "nodes": len(machines), "provider": "given"})
        job = MachinesJob(spec=spec, owner="o/p/s", given=tuple(machines))
        return self.clock.run(step.reserve(job, GivenProvider(machines), self.ledger, quiet))

    def undo(self) -> None:
        """What the failure of a growth leads to."""
        view = self.view
        self.clock.run(growth.undo(view, self.provider(view.declared), self.ledger, quiet, reason="it failed"))

    def pass_time(self, seconds: float) -> None:
        """Time goes by."""
        self.clock.run(asyncio.sleep(seconds))

    def rows(self) -> list[MachineReceipt]:
        """The receipt's rows."""
        found = receipt(self.ledger.entries("lab"), self.clock.now())
        assert found
        return list(found.machines)

    def alive(self) -> list[str]:
        """The nodes whose machines the provider has."""
        return sorted(node_name(made.index) for made in self.cloud.alive)
