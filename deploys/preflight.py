"""Preflight: before anything is changed, what keeps these machines from being one cluster (C1, F2, F6, F8, F22).

All look at once, all are compared, and what can be put right is put right; the rest ends the attempt here.
"""

from __future__ import annotations

import time
import uuid

from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.model.conditions import Condition
from runcrate_iac.model.kubernetes import networks
from runcrate_iac.model.storage import has_shared_folder
from runcrate_iac.provision import clock, membership
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.facts import Facts, parse
from runcrate_iac.provision.findings import found, waiting
from runcrate_iac.provision.preflight import no_shell, refusals, slower, unfit_ids
from runcrate_iac.provision.remote import File, files, hear, script
from runcrate_iac.render import render

_PAUSE = 3.0
"""Seconds between two looks at a lock."""
_facts: dict[int, Facts] = {}
_refusals: list[list[Condition]] = []
"""All of all nodes, once one node has compared them."""


class CannotJoin(Exception):
    """The machine can't be part of the cluster; the reason is among the findings."""


@deploy("Preflight")
def preflight() -> None:
    """Refuse machines that can't be one cluster, correct clocks and machine-ids, wait for the package manager."""
    here = cluster()
    python.call(name="look at the machine", function=_look, here=here)
    python.call(name="compare the machines", function=_compare, here=here)
    python.call(name="clock and machine-id", function=_mend, here=here)
    python.call(name="package manager", function=_wait_for_packages, here=here)


def _look(here: Context) -> None:
    before = time.time()
    shared_folder = has_shared_folder(here.spec.machine)
    values = {"node": here.node, "plan": here.plan, "spec": here.spec}
    lines = hear(render("checks/preflight.sh.j2", shared_folder=shared_folder, **values))
    facts = parse(lines, (before + time.time()) / 2, networks(here.spec.software))
    if facts is None:
        found(no_shell(here.node, lines))
        raise CannotJoin
    _facts[here.node.index] = facts


def _compare(here: Context) -> None:
    if here.is_head and (news := slower(here.plan, _facts)):
        _tell(here, news)
    if not _refusals:
        known = membership.refusals(here.plan, _facts, here.membership) if here.membership else ()
        _refusals.append([*known, *refusals(here.plan, here.spec, _facts, here.trusted)])
    wrong = [condition for condition in _refusals[0] if condition.node == here.node.name]
    for condition in wrong:
        found(condition)
    if wrong:
        raise CannotJoin
    if here.membership and not _refusals[0]:
        for news in membership.exchanged(here.plan, _facts, here.membership):
            if news.node == here.node.name:
                _tell(here, news)


def _tell(here: Context, news: Condition) -> None:
    found(news)
    waiting(here.node.name, news.message)


def _mend(here: Context) -> None:
    seconds = round(clock.corrections(_facts, here.trusted).get(here.node.index, 0))
    new_id = here.node.index in unfit_ids(here.plan, _facts, here.trusted)
    # Made here, since clones may share the state of their random numbers.
    machine_id = files(File("/etc/machine-id", f"{uuid.uuid4().hex}\n", mode="444")) if new_id else ""
    text = render("checks/mend.sh.j2", seconds=seconds, machine_id=machine_id)
    script(name="correct clock and machine-id", text=text, differs=bool(seconds or machine_id))


def _wait_for_packages(here: Context) -> None:
    """Wait as long as another program holds a lock that our installing needs; it is never broken."""
    facts = _facts[here.node.index]
    holder = facts.locked if facts.lacks else ""
    while holder:
        waiting(here.node.name, f"the package manager is locked by {holder}, waiting for it")
        time.sleep(_PAUSE)
        lines = hear(render("checks/locked.sh"))
        holder = next((line.removeprefix("locked ") for line in lines if line.startswith("locked ")), "")
