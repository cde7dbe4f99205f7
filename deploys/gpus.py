"""Simulated GPUs: device nodes with no hardware behind them, which schedulers count like real ones.

Their character devices have a major number that is kept for local use (Linux, admin-guide/devices.txt: 60 to 63) and
that no driver owns: each is a device of its own to the cgroup's device filter, and opening one fails.
"""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from runcrate_iac.provision.context import cluster
from runcrate_iac.provision.remote import File, converge, files, script
from runcrate_iac.render import render


@deploy("GPUs")
def gpus() -> None:
    """Make the device nodes, now and at every boot, where the machine's GPUs are simulated."""
    here = cluster()
    if not here.node.machine.gpus_simulated:
        script(name="simulated GPUs", text="", differs=False)
        return
    count = here.spec.machine.gpus
    wanted = File("/etc/tmpfiles.d/runcrate-simulated-gpus.conf", render("gpus/tmpfiles.conf.j2", count=count))
    converge(name="simulated GPUs", text=files(wanted) + render("gpus/simulated.sh.j2", count=count))
