"""Names: each node is called node-0, node-1, …, and knows the others' private addresses by name (C2, G11)."""

from __future__ import annotations

from runcrate_iac.provision.context import Context
from runcrate_iac.provision.remote import File, know, put
from runcrate_iac.render import render

_SCRIPT = "/usr/local/lib/runcrate/names"
_CLOUD_INIT = File(
    "/etc/cloud/cloud.cfg.d/99-runcrate.cfg",
    "# Written by runcrate-iac: the cluster's names stay.\npreserve_hostname: true\nmanage_etc_hosts: false\n",
)


def named(here: Context) -> str:
    """The shell text that sets the hostname and our part of /etc/hosts, now and at every boot."""
    file = File(_SCRIPT, render("network/names.sh.j2", node=here.node, plan=here.plan), mode="755")
    return (
        f"{know(file.path, _CLOUD_INIT.path)}{put(file)}"
        f"{_SCRIPT} check 2> /dev/null || {{\n"
        f"  keep hosts /etc/hosts\n  keep hostname /etc/hostname\n  run {_SCRIPT}\n"
        f"}}\n"
        f"if [ -d /etc/cloud/cloud.cfg.d ]; then\n{put(_CLOUD_INIT)}fi\n"
    )
