"""The hostfile of MPI and of launchers that read the same form: one line a node, slots are its GPUs (C19, C23)."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from runcrate_iac.provision.context import cluster
from runcrate_iac.provision.remote import File, converge, files, script
from runcrate_iac.provision.render import render


@deploy("Hostfile")
def hostfile() -> None:
    """Write /shared/hostfile, once, on the head."""
    here = cluster()
    if here.is_head:
        text = render("storage/hostfile.j2", plan=here.plan, spec=here.spec)
        converge(name="hostfile", text=files(File("/shared/hostfile", text)))
    else:
        script(name="hostfile", text="", differs=False)
