"""Shared storage: /shared lives on the head, and every node has it over the private network (C19, C22, F19, F20)."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from runcrate_iac.model.packages import STORAGE_CLIENT, STORAGE_SERVER
from runcrate_iac.provision.context import cluster
from runcrate_iac.provision.remote import converge, script
from runcrate_iac.provision.render import render


@deploy("Shared storage")
def storage() -> None:
    """Export /shared from the head and mount it on all other nodes, now and after every reboot of either side."""
    here = cluster()
    if here.is_head:
        text = render("storage/export.sh.j2", plan=here.plan, packages=STORAGE_SERVER)
    else:
        text = render("storage/mount-units.sh.j2", plan=here.plan, packages=STORAGE_CLIENT)
    converge(name="export /shared", text=text)
    if here.is_head:
        script(name="mount /shared", text="", differs=False)
    else:
        converge(name="mount /shared", text=render("storage/mount.sh.j2", plan=here.plan))
