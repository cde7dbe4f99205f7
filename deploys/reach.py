"""All nodes reach all nodes, by name, with full packets, and over SSH: what makes the join count (C2, C8, F26)."""

from __future__ import annotations

import time

from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.model.conditions import Condition
from runcrate_iac.provision.clock import disagreement
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found, waiting
from runcrate_iac.provision.reach import (
    SMALLEST,
    Probe,
    faults,
    firewalled,
    fitting_mtu,
    following,
    missing,
    network,
    parse,
    pause,
    still_narrow,
)
from runcrate_iac.provision.remote import ask, script
from runcrate_iac.render import render

PATIENCE = 45.0
"""Seconds until a pair that doesn't answer is given up; all nodes are up and configured when they start."""
_ROUND = 12
"""Seconds of one round, which WireGuard's 5 s retry fits into twice."""
_probes: dict[int, Probe] = {}
_offsets: dict[int, float] = {}
_narrowed: set[int] = set()
"""The nodes that have looked for a smaller packet size, once one was needed: all of them, or none."""


class NotReached(Exception):
    """The node doesn't reach all others; the reasons are among the findings."""


@deploy("Reach all nodes")
def reach() -> None:
    """Probe every other node until all answer; where packets are lost, fit their size to the narrowest path."""
    here = cluster()
    python.call(name="reach all other nodes", function=_probe, here=here)
    python.call(name="packet size", function=_fit, here=here)
    python.call(name="reach all other nodes", function=_probe_again, here=here)
    python.call(name="open ports", function=_prove, here=here)


@deploy("Look at the network")
def check() -> None:
    """The same after the join: a node that can't be reached is told, and ends nothing (X3)."""
    here = cluster()
    python.call(name="reach all other nodes", function=_look, here=here)
    python.call(name="packet size", function=_narrow, here=here)
    python.call(name="reach all other nodes", function=_look_again, here=here)
    python.call(name="network and clock", function=_tell, here=here)


def _look(here: Context) -> None:
    _probes[here.node.index] = _probed(here)


def _look_again(here: Context) -> None:
    if here.node.index in _narrowed:
        _look(here)


def _tell(here: Context) -> None:
    probes = {node.index: _probes[node.index] for node in here.present.nodes if node.index in _probes}
    for condition in network(here.present, here.node, probes, _offsets):
        found(condition)


def _probe(here: Context) -> None:
    probe = _probes[here.node.index] = _probed(here)
    _refuse(faults(here.plan, here.node, probe))


def _probed(here: Context) -> Probe:
    plan, node = here.present, here.node
    peers = [peer for peer in plan.nodes if peer != node]
    text = render("network/probe.sh.j2", plan=plan, node=node, peers=peers, next=following(plan, node), seconds=_ROUND)
    until = time.monotonic() + PATIENCE
    while True:
        before = time.time()
        probe = parse(ask(text))
        if not missing(plan, node, probe) or time.monotonic() + pause(probe) > until:
            break
        waiting(node.name, f"SSH answers, {missing(plan, node, probe)}")
        time.sleep(pause(probe))
    _offsets[node.index] = probe.time - before
    return probe


def _fit(here: Context) -> None:
    away = _offsets[here.node.index] - _offsets[0]
    _refuse([*disagreement(here.node, away), *firewalled(here.plan, here.node, _probes)])
    _narrow(here)


def _narrow(here: Context) -> None:
    if any(probe.fits for probe in _probes.values()):
        _narrowed.add(here.node.index)
    mtu = fitting_mtu(_probes)
    text = render("network/lower-mtu.sh.j2", interface=here.plan.interface, mtu=mtu)
    differs = SMALLEST <= mtu < _probes[here.node.index].mtu
    script(name=f"packets of {mtu} bytes", text=text, differs=differs)


def _probe_again(here: Context) -> None:
    if here.node.index in _narrowed:
        _probe(here)
        _refuse(still_narrow(here.node, _probes[here.node.index]))


def _prove(here: Context) -> None:
    """A node that was logged in to only once the packets were small enough has been looked at only now."""
    _refuse(firewalled(here.plan, here.node, _probes))


def _refuse(conditions: list[Condition]) -> None:
    for condition in conditions:
        found(condition)
    if conditions:
        raise NotReached
