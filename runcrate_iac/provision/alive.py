"""Whether the machines still run while nodes are worked on: a dead one is named at once, not when time is up (F16)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from runcrate_iac.ledger.view import View
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.gone import hidden
from runcrate_iac.machines.registry import provider_of
from runcrate_iac.machines.watch import Watch
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.progress import Report, Step
from runcrate_iac.provision.waits import TYPES


def looker(step: Step, view: View, report: Report) -> Callable[[], list[Condition]]:
    """A function that asks the provider and returns why machines of this cluster are dead; none where all run.

    Those that are being added count while they join.
    """
    if view.spec.provider == GivenProvider.name:
        return list  # their provider is the user's own program
    provider, joining = provider_of(view.declared), step is Step.JOIN
    machines = view.all_machines if joining else view.machines
    watch = Watch(view.cluster_id, provider, machines, hidden(view, provider, datetime.now(UTC)))

    async def look() -> list[Condition]:
        failures = await watch.look()
        if joining or view.growth is None:
            await watch.release_doubles(report)
        return [
            Condition(
                type=TYPES[step],
                status=Status.FALSE,
                reason="MachineDied",
                message=failure.message,
                remedy=failure.remedy,
                node=failure.node,
            )
            for failure in failures
        ]

    return lambda: asyncio.run(look())
