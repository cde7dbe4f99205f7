"""Ray: a head and workers as services of the login user, on the private network (C6, F20).

The login user and no account of its own, since tasks are the user's programs: they read the user's home and what is the
user's in /shared, and install packages into the environment that they run in.
"""

from __future__ import annotations

from pathlib import Path

from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.artifacts import store
from runcrate_iac.model import ray as rules
from runcrate_iac.model.artifacts import RAY_WHEELS
from runcrate_iac.model.conditions import Condition, broken
from runcrate_iac.provision import ray as verdict
from runcrate_iac.provision.artifacts import place
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found
from runcrate_iac.provision.remote import File, ask, converge, files
from runcrate_iac.provision.rounds import until_well
from runcrate_iac.render import render

PATIENCE = 600.0
"""Seconds for the processes of all nodes to start and meet: on a slow machine they are minutes of its processor."""
_ROUND = 10
_TASK_SECONDS = 180
_UNIT_FILE = f"/etc/systemd/system/{rules.UNIT}"
_TMPFILES = "/etc/tmpfiles.d/runcrate-ray.conf"
_START, _COMMAND = "/usr/local/lib/runcrate/ray", "/usr/local/lib/runcrate/ray-command.py"
_faults: dict[str, Condition] = {}
"""By node, what the head found wrong with it."""


class NotReady(Exception):
    """A node is no part of Ray's cluster; the reasons are among the findings."""


@deploy("Ray")
def ray() -> None:
    """Install, configure and start Ray on all nodes, and wait until each is part of its cluster with its GPUs."""
    here = cluster()
    python.call(name="wheels", function=_bring_wheels, here=here)
    values = rules.installation(here.node.machine.user, rules.WHEELS if here.spec.artifacts else "")
    converge(name="virtual environment", text=render("ray/install.sh.j2", **values))
    converge(name="configuration and service", text=_configuration(here))
    python.call(name="every node alive", function=_wait, here=here)
    python.call(name="reasons", function=_tell, here=here)


def _bring_wheels(here: Context) -> None:
    """Copy what the environment is made of, where the spec has it and the node hasn't made its environment yet."""
    if here.spec.artifacts is None or ask(f"cat {rules.VENV}/installed 2> /dev/null || :\n") == [rules.REQUIREMENT]:
        return
    place(here, rules.wheels(store.read(Path(here.spec.artifacts)).below(RAY_WHEELS)))


def _configuration(here: Context) -> str:
    values = {
        "node": here.node,
        "head": here.plan.head,
        "is_head": here.is_head,
        "venv": rules.VENV,
        "command": _COMMAND,
        "port": rules.PORT,
        "dashboard_port": rules.DASHBOARD_PORT,
        "agent_ports": rules.AGENT_PORTS,
        "simulated": rules.SIMULATED,
        "gpus": here.spec.machine.gpus,
    }
    wanted = [
        File(_START, render("ray/start.sh.j2", **values), mode="755"),
        File(_COMMAND, render("ray/command.py")),
        File(_UNIT_FILE, render("ray/runcrate-ray.service.j2", **values)),
        File(_TMPFILES, render("ray/tmpfiles.conf")),
    ]
    names = {
        "unit": rules.UNIT,
        "unit_file": _UNIT_FILE,
        "tmpfiles": _TMPFILES,
        "reasons": [_START, _COMMAND, _UNIT_FILE],
    }
    return files(*wanted) + render("ray/configure.sh.j2", venv=rules.VENV, **names)


def _wait(here: Context) -> None:
    if not here.is_head:
        return
    nodes, gpus = here.plan.nodes, here.spec.machine.gpus
    text = _listing(here, _ROUND)
    conditions = until_well(here.node.name, lambda: verdict.alive(nodes, ask(text, _sudo=False), gpus), PATIENCE)
    _faults.update({fault.node or "": fault for fault in broken(conditions)})


def _listing(here: Context, seconds: int) -> str:
    """The script in which the head asks its dashboard for Ray's nodes, waiting at most so long for all of them."""
    url, addresses = f"http://{here.node.address}:{rules.DASHBOARD_PORT}", (node.address for node in here.plan.nodes)
    arguments = [url, seconds, here.spec.machine.gpus, *addresses]
    return render("ray/python.sh.j2", python="python3", program=render("ray/nodes.py"), arguments=arguments)


def _tell(here: Context) -> None:
    """Note the fault of this node with the end of its service's log, which the head can't see."""
    if fault := _faults.get(here.node.name):
        found(verdict.explained(fault, ask(render("ray/log.sh.j2", unit=rules.UNIT))))
        raise NotReady


@deploy("Check Ray")
def check() -> None:
    """Ask Ray itself: which nodes it has, with which GPUs, and run a task on every one."""
    here = cluster()
    python.call(name="nodes and tasks", function=_check, here=here)
    python.call(name="reasons", function=_explain, here=here)


def _check(here: Context) -> None:
    if not here.is_head:
        return
    nodes, gpus = here.plan.nodes, here.spec.machine.gpus
    asked = {node.name for node in here.present.nodes}
    run = render(
        "ray/python.sh.j2",
        python=f"timeout {_TASK_SECONDS + 60} {rules.VENV}/bin/python",
        program=render("ray/tasks.py"),
        arguments=[f"{here.node.address}:{rules.PORT}", _TASK_SECONDS],
    )
    lines = ask(_listing(here, 0) + run, _sudo=False)
    for condition in [*verdict.alive(nodes, lines, gpus), *verdict.tasks(nodes, lines)]:
        if broken([condition]) and condition.node in asked:
            _faults.setdefault(condition.node or "", condition)
        else:
            found(condition)


def _explain(here: Context) -> None:
    if fault := _faults.get(here.node.name):
        found(verdict.explained(fault, ask(render("ray/log.sh.j2", unit=rules.UNIT))))
