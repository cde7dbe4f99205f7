"""Slurm as a site's admin would want it: accounting, cgroups, GPUs, MPI, on the private network (C6, G15, G30, G33).

The head makes a fresh munge key, which reaches the other nodes through this process's memory and their standard input.
Then the nodes tell what hardware they have, since every node's configuration names all of them.
"""

from __future__ import annotations

from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.model import slurm as rules
from runcrate_iac.model.conditions import broken
from runcrate_iac.model.packages import PACKAGES
from runcrate_iac.provision import slurm as verdict
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found
from runcrate_iac.provision.remote import File, ask, converge, files, know, put
from runcrate_iac.provision.rounds import until_well
from runcrate_iac.provision.slurm import configuration
from runcrate_iac.render import render

PATIENCE = 180.0
"""Seconds for the daemons of all nodes to start and meet, the first creation of the accounting tables included."""
_ROUND = 10
_MPI = ("/etc/openmpi/openmpi-mca-params.conf", "/etc/openmpi/prte-mca-params.conf")
_MPI_SECONDS = 90
_POOL = "/etc/mysql/mariadb.conf.d/61-runcrate-memory.cnf"
_credentials: dict[int, str] = {}
"""What each node encoded last, by its index; worth nothing after five minutes (munged(8))."""
_hardware: dict[int, rules.Hardware] = {}


class NotReady(Exception):
    """A node can't take jobs; the reasons are among the findings."""


@deploy("Slurm")
def slurm() -> None:
    """Install, configure and start Slurm on all nodes, and wait until each is idle."""
    here = cluster()
    names = {
        codename: (*one.slurm_node, *one.mpi, *(one.slurm_head if here.is_head else ()))
        for codename, one in PACKAGES.items()
    }
    database = {
        "/etc/mysql/mariadb.conf.d/60-runcrate.cnf": render("slurm/mariadb.cnf"),
        "/etc/mysql/runcrate-slurm.sql": render("slurm/database.sql"),
    }
    text = render("slurm/packages.sh.j2", packages=names)
    if here.is_head:
        # The files first: the package's first start of the database already opens no port.
        before = files(*(File(path, content) for path, content in database.items()))
        before += render("slurm/buffer-pool.sh.j2", path=_POOL)
        text = before + text + render("slurm/head.sh.j2", spec=here.spec, database=[*database, _POOL])
    converge(name="packages, database and key", text=text)
    python.call(name="hardware", function=_read_hardware, here=here)
    python.call(name="configuration and services", function=_configure, here=here)
    python.call(name="every node idle", function=_wait, here=here)


def _read_hardware(here: Context) -> None:
    _hardware[here.node.index] = rules.parse(ask(render("slurm/hardware.sh.j2", node=here.node, is_head=here.is_head)))


def _configure(here: Context) -> None:
    plan = here.plan
    services = verdict.services(head=here.is_head, gpus_simulated=here.node.machine.gpus_simulated)
    wanted = [
        File("/etc/munge/munge.key", _hardware[0].key + "\n", mode="400", owner="munge"),
        *(File(path, text) for path, text in configuration(here.spec, plan, _hardware).items()),
        *(
            File(f"/etc/systemd/system/{unit}.d/runcrate.conf", render("slurm/unit.conf.j2", service=service))
            for unit, service in services.items()
        ),
    ]
    if here.is_head:
        text = render("slurm/slurmdbd.conf.j2", plan=plan)
        wanted.append(File("/etc/slurm/slurmdbd.conf", text, mode="600", owner="slurm"))
    paths = [*(file.path for file in wanted), *_MPI]
    units = {
        unit: [*service.files, f"/etc/systemd/system/{unit}.d/runcrate.conf"] for unit, service in services.items()
    }
    then = render("slurm/configure.sh.j2", plan=plan, is_head=here.is_head, units=units)
    converge(name="configuration and services", text=know(*paths) + "".join(put(file) for file in wanted) + then)


def _wait(here: Context) -> None:
    declared = here.spec.machine.gpus
    if missing := verdict.missing_gpus(here.node, _hardware[here.node.index], declared):
        found(missing)
        raise NotReady
    if not here.is_head:
        return
    nodes = [node for node in here.plan.nodes if not verdict.missing_gpus(node, _hardware[node.index], declared)]
    gres, at_work = rules.gres(here.spec.machine), "|".join(sorted(verdict.AT_WORK))
    text = render("slurm/wait.sh.j2", seconds=_ROUND, wanted=nodes, gres=gres, at_work=at_work)
    faults = broken(until_well(here.node.name, lambda: verdict.idle(nodes, ask(text), gres), PATIENCE))
    for fault in faults:
        found(fault)
    if faults:
        raise NotReady


@deploy("Check Slurm")
def check() -> None:
    """Ask Slurm itself, on every node: credentials, states, accounting, and an MPI program over all nodes."""
    here = cluster()
    python.call(name="credentials", function=_encode, here=here)
    python.call(name="credentials, states, MPI", function=_check, here=here)


def _encode(here: Context) -> None:
    _credentials[here.node.index] = "".join(ask("munge -n 2> /dev/null || :\n", _sudo=False))


def _check(here: Context) -> None:
    plan, node = here.plan, here.node
    there = [peer for peer in here.present.nodes if peer.index in _credentials]
    peers = {peer.name: _credentials[peer.index] for peer in there if (peer == plan.head) != here.is_head}
    whole = len(there) == len(plan.nodes)
    values = {"nodes": len(plan.nodes), "is_head": here.is_head, "whole": whole, "credentials": peers}
    busy = "|".join(sorted(verdict.AT_WORK - {"idle"}))
    program = render("slurm/mpi_size.py")
    text = render("slurm/check.sh.j2", program=program, seconds=_MPI_SECONDS, busy=busy, **values)
    lines = ask(text, _sudo=False)
    conditions = [verdict.credentials(node, lines)] if peers else []
    if here.is_head:
        states = [line.removeprefix("node ") for line in lines if line.startswith("node ")]
        conditions += verdict.idle(plan.nodes, states, rules.gres(here.spec.machine))
        conditions += [verdict.accounting(node, lines), verdict.mpi(plan, lines)]
    for condition in conditions:
        found(condition)
