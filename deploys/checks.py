"""The acceptance suite, the same for every software: names, GPUs, /shared and the hostfile, on every node (X3, F22).

That all nodes reach all, with large packets and agreeing clocks, is ``reach.reach``.
"""

from __future__ import annotations

import uuid

from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.model.slurm import gpu_device
from runcrate_iac.model.storage import has_shared_folder, hostfile
from runcrate_iac.provision.checks import verdicts
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found
from runcrate_iac.provision.remote import ask
from runcrate_iac.provision.render import render

_TOKEN = uuid.uuid4().hex
_TRIES = 40
"""Half seconds until what another node writes must be readable; all nodes write at the same time."""


@deploy("Check")
def checks() -> None:
    """Look at every node at once; what is found are conditions, nothing is changed."""
    here = cluster()
    python.call(name="names, GPUs, storage", function=_look, here=here)
    python.call(name="tidy up", function=_tidy, here=here)


def _look(here: Context) -> None:
    machine = here.spec.machine
    shared, path = has_shared_folder(machine), hostfile(machine)
    values = {"plan": here.plan, "node": here.node, "is_head": here.is_head, "tries": _TRIES, "token": _TOKEN}
    more = {"gpu_device": gpu_device(here.node), "shared": shared, "hostfile": path}
    lines = ask(render("checks/node.sh.j2", **values, **more), _sudo=False)
    wanted = render("storage/hostfile.j2", plan=here.plan, spec=here.spec).splitlines()
    for condition in verdicts(here.plan, here.node, machine.gpus, (path, wanted), lines, shared=shared):
        found(condition)


def _tidy(here: Context) -> None:
    if here.is_head and has_shared_folder(here.spec.machine):
        ask(f"rm -rf /shared/.runcrate-check-{_TOKEN}")
