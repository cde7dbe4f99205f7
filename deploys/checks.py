"""The acceptance suite, the same for every software: names, GPUs, /shared and the hostfile, on every node (X3, F22).

That all nodes reach all, with large packets and agreeing clocks, is ``reach.check``.
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
from runcrate_iac.provision.reach import following
from runcrate_iac.provision.remote import ask
from runcrate_iac.render import render

_TOKEN = uuid.uuid4().hex
_TRIES = 40
"""Half seconds until what another node writes must be readable; all nodes write at the same time."""
_SECONDS = 60
"""For all that is done in /shared."""


@deploy("Check")
def checks() -> None:
    """Look at every node at once; what is found are conditions, nothing is changed."""
    here = cluster()
    python.call(name="names, GPUs, storage", function=_look, here=here)
    python.call(name="tidy up", function=_tidy, here=here)


def _look(here: Context) -> None:
    machine = here.spec.machine
    shared, path = has_shared_folder(machine), hostfile(machine)
    after = following(here.present, here.node)
    values = {
        "plan": here.plan,
        "present": here.present,
        "node": here.node,
        "is_head": here.is_head,
        "next": after if after != here.node else None,
        "storage_there": here.plan.head in here.present.nodes,
        "token": _TOKEN,
        "tries": _TRIES,
        "seconds": _SECONDS,
    }
    text = render("checks/node.sh.j2", gpu_device=gpu_device(here.node), shared=shared, hostfile=path, **values)
    wanted = render("storage/hostfile.j2", plan=here.plan, spec=here.spec).splitlines()
    lines = ask(text, _sudo=False)
    told = verdicts(here.plan, here.node, machine.gpus, (path, wanted), lines, present=here.present, shared=shared)
    for condition in told:
        found(condition)


def _tidy(here: Context) -> None:
    if here.is_head and has_shared_folder(here.spec.machine):
        ask(f"rm -rf /shared/.runcrate-check-{_TOKEN}")
