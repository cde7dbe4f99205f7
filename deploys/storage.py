"""Shared storage: /shared lives on the head, and every node has it over the private network (C19, C22, F19, F20)."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from runcrate_iac.model.packages import STORAGE_CLIENT, STORAGE_SERVER
from runcrate_iac.provision.context import cluster
from runcrate_iac.provision.remote import File, converge, files, script
from runcrate_iac.render import render


@deploy("Shared storage")
def storage() -> None:
    """Export /shared from the head and mount it on all other nodes, now and after every reboot of either side."""
    here = cluster()
    units = "/etc/systemd/system"
    if here.is_head:
        wanted = [
            File("/etc/exports.d/runcrate.exports", render("storage/exports.j2", plan=here.plan)),
            File("/etc/nfs.conf.d/runcrate.conf", render("storage/nfs.conf.j2", plan=here.plan)),
            File(f"{units}/nfs-server.service.d/runcrate.conf", render("storage/nfs-server.conf")),
        ]
        packages, then = STORAGE_SERVER, render("storage/export.sh")
    else:
        wanted = [
            File(f"{units}/shared.mount", render("storage/shared.mount.j2", plan=here.plan)),
            File(f"{units}/shared.automount", render("storage/shared.automount")),
        ]
        packages, then = STORAGE_CLIENT, render("storage/mount-units.sh")
    # The files first: the package's first start of the server already listens where it should.
    first = render("storage/ours.sh.j2", node=here.node, is_head=here.is_head)
    converge(name="export /shared", text=first + files(*wanted) + f"packages {' '.join(packages)}\n" + then)
    if here.is_head:
        script(name="mount /shared", text="", differs=False)
    else:
        converge(name="mount /shared", text=render("storage/mount.sh.j2", plan=here.plan))
