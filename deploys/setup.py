"""The user's own set-up script: on every node at once, as root, until it has succeeded there (C9, F32, F40).

It runs as a unit of systemd's, which ends all that it has started when it fails or is out of time, and outlives a
connection that breaks. That it has succeeded is noted on the node: then the same script doesn't run there again.
"""

from __future__ import annotations

from hashlib import sha256

from pyinfra import host
from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.model.conditions import broken
from runcrate_iac.provision import setup as verdicts
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found
from runcrate_iac.provision.remote import File, ask, converge, files
from runcrate_iac.render import render

_PROGRAMS = "/usr/local/lib/runcrate"
_SCRIPT = f"{_PROGRAMS}/setup-script"
_RUN = f"{_PROGRAMS}/run-setup"
_UNIT = "runcrate-setup.service"
_PATHS = {
    "unit": _UNIT,
    "run": _RUN,
    "script": _SCRIPT,
    "log": verdicts.LOG,
    "wanted": "/var/lib/runcrate/setup/wanted",
    "done": "/var/lib/runcrate/setup/done",
}


class NotSetUp(Exception):
    """The script has not succeeded on the node; the reason is among the findings."""


@deploy("Set-up script")
def setup() -> None:
    """Run the script, unless this very text has succeeded on this node already.

    Reads host data ``runcrate_script``, its text, and ``runcrate_cluster_id``.
    """
    here = cluster()
    script: str = host.data.runcrate_script
    mark = f"{host.data.runcrate_cluster_id} {sha256(script.encode()).hexdigest()}"
    wanted = files(
        File(_PATHS["wanted"], f"{mark}\n", mode="600"),
        File(_SCRIPT, script, mode="700"),
        File(_RUN, render("setup/run.sh.j2", **_PATHS), mode="755"),
        File(f"/etc/systemd/system/{_UNIT}", render("setup/unit.j2", here=here, **_PATHS)),
    )
    converge(name="set-up script", text=render("setup/start.sh.j2", mark=mark, files=wanted, **_PATHS))
    python.call(name="how the set-up script ended", function=_judge, here=here, mark=mark)


def _judge(here: Context, mark: str) -> None:
    lines = ask(render("setup/ended.sh.j2", mark=mark, lines=verdicts.LINES, **_PATHS))
    condition = verdicts.ended(here.spec, here.node.name, lines)
    found(condition)
    if broken([condition]):
        raise NotSetUp


@deploy("Check the set-up script")
def check() -> None:
    """Look whether the script that was wanted last has succeeded on this node."""
    here = cluster()
    python.call(name="set-up script", function=_look, here=here, cluster_id=host.data.runcrate_cluster_id)


def _look(here: Context, cluster_id: str) -> None:
    done = ask(render("setup/check.sh.j2", cluster_id=cluster_id, **_PATHS)) == ["done"]
    found(verdicts.checked(here.spec, here.node.name, done=done))
