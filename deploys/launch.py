"""What launchers of distributed programs need on every node: the private network by its name, and SSH (C23, C16)."""

from __future__ import annotations

from pyinfra.api.deploy import deploy

from runcrate_iac.model.packages import PACKAGES
from runcrate_iac.provision.context import cluster
from runcrate_iac.provision.remote import File, converge, know, put
from runcrate_iac.render import render

_LIMITS = File("/etc/security/limits.d/runcrate.conf", "# Written by runcrate-iac.\n* - memlock unlimited\n")


@deploy("Launchers")
def launch() -> None:
    """Install what they use, and tell all programs of all users which network interface is the cluster's."""
    here = cluster()
    names = sorted({name for one in PACKAGES.values() for name in one.launch})
    text = render("launch/launch.sh.j2", packages=names, interface=here.plan.interface, limits=put(_LIMITS))
    converge(name="launchers", text=know("/etc/environment", "/etc/nccl.conf", _LIMITS.path) + text)
