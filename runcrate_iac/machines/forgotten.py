"""Machines that carry a cluster's mark and belong to no living cluster: found by asking every provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from runcrate_iac.errors import Refused
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import View
from runcrate_iac.machines.pool import pools
from runcrate_iac.machines.provider import HasMarks, Provider
from runcrate_iac.machines.registry import names, provider
from runcrate_iac.machines.watch import within
from runcrate_iac.model.base import Model
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.network import Machine, MachineState


class Marked(Model):
    """The machines of one provider that carry one mark."""

    cluster_id: str
    """The mark."""
    provider: str
    machines: tuple[Machine, ...]
    belongs_to: str
    """What they belong to, and how that is ended; empty where it is nothing that lives."""
    known: str
    """What the ledger knows of the mark."""


def name_of(cluster_id: str) -> str:
    """The name of the cluster or pool in a mark, ``<name>-<8 hexadecimal digits>``."""
    return cluster_id.rpartition("-")[0] or cluster_id


async def find(ledger: Ledger, busy: Callable[[], Mapping[str, str]]) -> tuple[list[Marked], dict[str, str]]:
    """All marked machines of all providers, and what those providers said that can't be asked.

    ``busy``: who works on which cluster name now. The providers are asked before the ledger, which has every
    cluster before its first machine: so none that is just starting is taken for forgotten.
    """
    carried: list[tuple[str, str, tuple[Machine, ...]]] = []
    silent = {}
    for name in names():
        try:
            source = provider(name)
            found = await _carried(source, _ids(ledger, name))
        except Exception as error:  # noqa: BLE001 - the other providers are asked all the same
            silent[name] = " ".join(f"{type(error).__name__}: {error}".split())
            continue
        carried += [(cluster_id, name, machines) for cluster_id, machines in found.items()]
    working, pooled = busy(), pools()
    marked = []
    for cluster_id, name, machines in carried:
        belongs, known = judge(cluster_id, lambda: ledger.latest(name_of(cluster_id)), pooled, working)  # noqa: B023
        marked.append(Marked(cluster_id=cluster_id, provider=name, machines=machines, belongs_to=belongs, known=known))
    return marked, silent


def judge(
    cluster_id: str, latest: Callable[[], View | None], pooled: Mapping[str, str], busy: Mapping[str, str]
) -> tuple[str, str]:
    """What a mark belongs to, empty where to nothing that lives, and what the ledger knows of it.

    ``latest``: the newest cluster of the mark's name; ``pooled``: the stack of each pool, by its mark.
    """
    name = name_of(cluster_id)
    try:
        view = latest()
    except Refused as error:  # whatever its events say, it may live
        return error.message, "its events can't be understood"
    mine = view is not None and view.cluster_id == cluster_id
    known = f"{view.state} since {view.since:%Y-%m-%d %H:%M} UTC" if view and mine else "not the newest of its name"
    if view is None:
        known = "not in the ledger"
    if cluster_id in pooled:
        gone = f"where that is gone, `runcrate-iac down {cluster_id} --stack-gone`"
        return f"a pool of the stack {pooled[cluster_id]}: `pulumi destroy` ends it; {gone}", known
    if name in busy:
        return busy[name], known
    if view is not None and mine and not view.over:
        return f"{name}, {view.state}: `runcrate-iac down {name}` ends it", known
    return "", known


async def _carried(source: Provider, known: Collection[str]) -> dict[str, tuple[Machine, ...]]:
    """The machines by their mark; of a provider that can't say its marks, those of clusters in the ledger."""
    marks = await within(source.marks()) if isinstance(source, HasMarks) else known
    lists = await asyncio.gather(*(within(source.list(mark)) for mark in marks))
    alive = [tuple(machine for machine in found if machine.state is not MachineState.GONE) for found in lists]
    return {mark: machines for mark, machines in zip(marks, alive, strict=True) if machines}


def _ids(ledger: Ledger, provider_name: str) -> Sequence[str]:
    reserved = [entry for entry in ledger.entries() if entry.type == Happened.RESERVED]
    return [entry.cluster_id for entry in reserved if entry.data["spec"].get("provider") == provider_name]
