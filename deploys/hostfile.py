"""The hostfile of MPI and of launchers that read the same form: one line a node, slots are its GPUs (C19, C23)."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from runcrate_iac.model.storage import has_shared_folder
from runcrate_iac.model.storage import hostfile as path
from runcrate_iac.provision.context import cluster
from runcrate_iac.provision.remote import File, converge, files, script
from runcrate_iac.render import render


@deploy("Hostfile")
def hostfile() -> None:
    """Write it on the head, into /shared; on every node where they share no folder (C21)."""
    here = cluster()
    if here.is_head or not has_shared_folder(here.spec.machine):
        text = render("storage/hostfile.j2", plan=here.plan, spec=here.spec)
        converge(name="hostfile", text=files(File(path(here.spec.machine), text)))
    else:
        script(name="hostfile", text="", differs=False)
