"""Machines of a provider without a cluster, for tests of providers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import psutil

from runcrate_iac.machines import fleet
from runcrate_iac.machines.provider import Provider, Reservation
from runcrate_iac.machines.watch import within
from runcrate_iac.model.network import Machine
from runcrate_iac.model.progress import Report


def until(holds: Callable[[], object], what: str, seconds: float = 240) -> None:
    """Wait for something that must come to be."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def virtual_machines(name: str, node: str = "") -> list[psutil.Process]:
    """The running virtual machines of a cluster, or that of one node."""
    words = {p: " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["name", "cmdline"])}
    return [p for p, line in words.items() if f"guest={name}-" in line and node in line and "qemu" in p.info["name"]]


def reserve(provider: Provider, request: Reservation, report: Report) -> Sequence[Machine]:
    """All machines of the reservation, or the error that ended the attempt."""
    seconds = request.deadline - time.time()
    return asyncio.run(fleet.bring_up(request, provider, seconds, lambda machine: None, report))


def release(provider: Provider, cluster_id: str, report: Report) -> None:
    """Release them, and see that none is left."""
    _, left = asyncio.run(fleet.release(cluster_id, provider, report))
    assert not left


def listed(provider: Provider, cluster_id: str) -> list[Machine]:
    """What the provider lists now."""
    return list(asyncio.run(within(provider.list(cluster_id))))
