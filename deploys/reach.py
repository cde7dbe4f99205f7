"""All nodes reach all nodes, by name, with full packets, and over SSH: what makes the join count (C2, C8, F26)."""

from __future__ import annotations

import time

from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.provision import clock
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found, waiting
from runcrate_iac.provision.reach import Probe, faults, fitting_mtu, missing, parse
from runcrate_iac.provision.remote import ask, script
from runcrate_iac.provision.render import render

PATIENCE = 45.0
"""Seconds until a pair that doesn't answer is given up; all nodes are up and configured when they start."""
_ROUND = 12
"""Seconds of one round, which WireGuard's 5 s retry fits into twice."""
_probes: dict[int, Probe] = {}
_offsets: dict[int, float] = {}


class NotReached(Exception):
    """The node doesn't reach all others; the reasons are among the findings."""


@deploy("Reach all nodes")
def reach() -> None:
    """Probe every other node until all answer, and fit the packet size to the narrowest path."""
    here = cluster()
    python.call(name="reach all other nodes", function=_probe, here=here)
    python.call(name="packet size", function=_judge, here=here)


def _probe(here: Context) -> None:
    plan, node = here.plan, here.node
    until = time.monotonic() + PATIENCE
    while True:
        peers = [peer for peer in plan.nodes if peer != node]
        after = plan.nodes[(node.index + 1) % len(plan.nodes)]
        text = render("network/probe.sh.j2", plan=plan, node=node, peers=peers, next=after, seconds=_ROUND)
        before = time.time()
        probe = parse(ask(text))
        if not probe.silent or time.monotonic() > until:
            break
        waiting(node.name, f"SSH answers, {missing(probe)}")
    _probes[node.index] = probe
    _offsets[node.index] = probe.time - before
    problems = faults(plan, node, probe)
    for condition in problems:
        found(condition)
    if problems:
        raise NotReached


def _judge(here: Context) -> None:
    node = here.node
    if (disagrees := clock.disagreement(node, _offsets)) is not None:
        found(disagrees)
        raise NotReached
    mtu = fitting_mtu(_probes)
    if mtu < _probes[node.index].mtu:
        text = render("network/lower-mtu.sh.j2", interface=here.plan.interface, mtu=mtu)
        script(name=f"packets of {mtu} bytes fit all paths", text=text)
