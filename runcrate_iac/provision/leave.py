"""Leaving: machines that stay with the user become what they were before the join, all at once over SSH (C7, C22)."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runcrate_iac.model import network
from runcrate_iac.model.network import Machine, Node
from runcrate_iac.model.progress import Report
from runcrate_iac.provision import ssh

SECONDS = 150.0
"""How long a node may take, from the first try to connect."""
_CONNECT = 15
"""Seconds for one try; a machine that is gone holds the release up for two of them."""
_PAUSE = 5.0
_NO_SESSION = 255
"""ssh's exit code where it is not the command that failed (ssh(1))."""
LEAVE = "/usr/local/lib/runcrate/leave"
"""The script on a node, which root may run by hand too."""
_STAYS = "it is another node of this cluster, and stays"


def leave(
    cluster: str, cluster_id: str, machines: Sequence[Machine], report: Report, *, first: int = 0
) -> tuple[str, ...]:
    """Have every node undo what the join and the later steps did to it; return the names of those that did not.

    ``first``: only the nodes from this number on, and no machine that is one of those before by its own word.
    ``report`` hears of each node, and of one that can't be reached or does not do it, the reason and the remedy: the
    script is on the node, and it is no error of the release, since nothing of ours costs anything there. Repeatable; a
    node that is in another cluster by now (``cluster_id``) is left alone. Takes :data:`SECONDS` at most.
    """
    plan = network.plan(machines)
    config = ssh.write(cluster, plan)
    known = config.with_name("known_hosts").read_text()

    def one(node: Node) -> bool:
        if not ssh.is_known(node, known):
            problem = "this computer never logged in to it"
        elif (problem := _problem(node, config, script)) in ("", _STAYS):
            report(problem or "is as it was before the join", node.name)
            return True
        report(f"not left: {problem}; if it was joined, run `sudo {LEAVE}` on {node.machine.host}", node.name)
        return False

    nodes, script = plan.nodes[first:], _script(cluster_id, [node.name for node in plan.nodes[:first]])
    with ThreadPoolExecutor(len(nodes)) as pool:
        done = list(pool.map(one, nodes))
    return tuple(node.name for node, left in zip(nodes, done, strict=True) if not left)


def _script(cluster_id: str, staying: Sequence[str]) -> str:
    """What makes a machine leave, unless it says that it is one of these nodes."""
    leave = f"[ ! -x {LEAVE} ] || exec {LEAVE} {shlex.quote(cluster_id)}\n"
    if not staying:
        return leave
    return (
        "node=\n{ read -r id && read -r node; } 2> /dev/null < /var/lib/runcrate/cluster\n"
        f'case " {" ".join(staying)} " in\n'
        f'  *" ${{node:-none}} "*) echo "{_STAYS}" >&2 && exit 1 ;;\n'
        f"esac\n{leave}"
    )


def _problem(node: Node, config: Path, script: str) -> str:
    """Why the node did not do it; empty where it did, or has nothing to undo."""
    shell = "sh -s" if node.machine.user == "root" else "sudo -n sh -s"
    options = ["BatchMode=yes", f"ConnectTimeout={_CONNECT}", "ConnectionAttempts=1"]
    command = ["ssh", "-F", str(config), *(word for option in options for word in ("-o", option)), node.name, shell]
    until = time.monotonic() + SECONDS
    for last in (False, True):
        try:
            done = subprocess.run(
                command,
                input=script,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=max(1.0, until - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"not done after {SECONDS:.0f} s"
        said = done.stderr.strip().splitlines()
        refused = "Permission denied" in done.stderr
        if done.returncode != _NO_SESSION or refused or last:  # a refused login is not tried again (G1)
            break
        time.sleep(_PAUSE)
    return "" if done.returncode == 0 else said[-1] if said else f"exit code {done.returncode}"
