"""How long the join of container machines takes, beside Ansible and beside the nodes' own work. Needs root.

    python bench/join.py [4 16 64]

All on the same machines, in one run, ratios in it: absolute seconds depend on the computer. ``floor`` is one raw shell
command per step over connections that are open, see ``floor.py``. Ansible's playbook does less than the join: it looks
at nothing before, has no lease, and can't be undone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import hosts
from runcrate_iac.components import documents
from runcrate_iac.ledger.feed import feed_path
from runcrate_iac.machines.pool import argument
from runcrate_iac.model.network import Machine, node_name, private_address
from runcrate_iac.model.progress import Event, Step
from runcrate_iac.paths import cache_dir

HERE = Path(__file__).parent
ANSIBLE = "ansible-core==2.19.14"
_NAME = "bench"
_OWNER = "organization/bench/dev"


class Took(NamedTuple):
    """What a contender took, in seconds."""

    seconds: float
    own: float
    """CPU of this computer's side: the process, and those that it waited for."""
    nodes: float
    """CPU of the nodes."""
    others: float
    """CPU of everything else on this computer meanwhile."""
    parts: list[tuple[str, float, float]]
    """What it did, one after the other: seconds, CPU of the nodes."""


Marks = Sequence[tuple[str, float]]
"""What began when, in seconds since the epoch."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[4, 16, 64])
    parser.add_argument("--without-ansible", action="store_true")
    asked = parser.parse_args()
    playbook = None if asked.without_ansible else ansible_playbook()
    with hosts.machines(max(asked.nodes)) as made:
        for many in asked.nodes:
            compare(made[:many], playbook)


def compare(made: Sequence[Machine], playbook: Path | None) -> None:
    """One table: every contender on these machines."""
    print(f"\n{len(made)} nodes\n{'':10}{'seconds':>9}{'own CPU':>9}{'per node':>9}{'nodes CPU':>11}{'others CPU':>12}")
    hand = floor(made)
    show("floor", hand, len(made))
    join = ours(made)
    show("join", join, len(made))
    ratio("floor", join, hand)
    if playbook:
        other = ansible(made, playbook)
        show("Ansible", other, len(made))
        ratio("Ansible", join, other)
    print(f"{'':52}{'seconds':>9}{'nodes CPU':>11}")
    for name, took in (("floor", hand), ("join", join)):
        for part, seconds, cpu in took.parts:
            print(f"{name + ': ' + part:52}{seconds:9.1f}{cpu:11.1f}")
    sys.stdout.flush()


def show(name: str, took: Took, many: int) -> None:
    """A line of the table."""
    own = f"{took.own:9.1f}{took.own / many:9.3f}"
    print(f"{name:10}{took.seconds:9.1f}{own}{took.nodes:11.1f}{took.others:12.1f}", flush=True)


def ratio(name: str, join: Took, other: Took) -> None:
    """How the join compares: in seconds, and in CPU, which other work on this computer changes less."""
    cpu = (join.own + join.nodes) / (other.own + other.nodes)
    print(f"join / {name}: {join.seconds / other.seconds:.2f} of its seconds, {cpu:.2f} of its CPU", flush=True)


def measured(
    made: Sequence[Machine], command: Sequence[str | Path], marks: Callable[[str], Marks], text: str = "", **env: str
) -> Took:
    """Run a command on machines at rest; its failure ends the bench. ``marks`` tell its parts by its output."""
    hosts.rest(made)
    own, everything = _own(), _all()
    with hosts.Sampled(made) as samples:
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=os.environ | env, check=False)
    own, everything = _own() - own, _all() - everything
    if done.returncode != 0:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    nodes = samples.used(samples.begun, samples.ended)
    bounds = [("start", samples.begun), *marks(done.stdout), ("", samples.ended)]
    return Took(
        samples.ended - samples.begun,
        own,
        nodes,
        max(0.0, everything - own - nodes),
        [(name, after - then, samples.used(then, after)) for (name, then), (_, after) in pairwise(bounds)],
    )


def _own() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _all() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.softirq + times.nice)


def floor(made: Sequence[Machine]) -> Took:
    """The nodes' own work."""
    text = json.dumps([machine.model_dump(mode="json") for machine in made])
    took = measured(made, [sys.executable, HERE / "floor.py"], json.loads, text)
    hosts.put_back(made)
    return took


def ours(made: Sequence[Machine]) -> Took:
    """The join, as Pulumi runs it."""
    given: list[Mapping[str, Any]] = [argument(machine) for machine in made]
    spec = documents.spec_of(_NAME, {"machines": given, "machine": {"kind": "container"}})
    job = documents.machines_document(spec, _OWNER, given)
    document = documents.step_document(spec, Step.JOIN, _OWNER, run("machines", "reserve", job))
    feed_path(_NAME).unlink(missing_ok=True)
    took = measured(made, [sys.executable, "-m", "runcrate_iac.provision", "join"], parts, document)
    run("provision", "leave", document)
    run("machines", "release", job)
    return took


def run(module: str, verb: str, text: str) -> str:
    """A step's process that is not measured."""
    command = [sys.executable, "-m", f"runcrate_iac.{module}", verb]
    return subprocess.run(
        command, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    ).stdout


def parts(_said: str) -> Marks:
    """When the first node began each part, by the step's own news."""
    begun: dict[str, float] = {}
    for line in feed_path(_NAME).read_text().splitlines():
        event = Event.model_validate_json(line)
        if event.message.startswith("join on"):
            begun["connect"] = event.time.timestamp()
        elif " | " in event.message or event.message in ("reading its present state", "done"):
            begun.setdefault(event.message, event.time.timestamp())
    return list(begun.items())


def ansible_playbook() -> Path:
    """The command, installed where the cache lacks it."""
    folder = cache_dir() / ANSIBLE
    if not (folder / "bin/ansible-playbook").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", ANSIBLE], check=True)
    return folder / "bin/ansible-playbook"


def ansible(made: Sequence[Machine], playbook: Path) -> Took:
    """The playbook, over connections that stay open, with pipelining, on all nodes at once."""
    nodes = {
        node_name(machine.index): {
            "ansible_host": machine.host,
            "ansible_user": machine.user,
            "ansible_ssh_private_key_file": machine.identity_file,
            "ansible_python_interpreter": "/usr/bin/python3",
            "private": str(private_address(machine.index)),
        }
        for machine in made
    }
    inventory = hosts.HOME / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": nodes}}))
    took = measured(
        made,
        [playbook, "-i", inventory, HERE / "ansible/playbook.yml"],
        lambda said: [],  # noqa: ARG005
        ANSIBLE_FORKS=str(len(made)),
        ANSIBLE_PIPELINING="1",
        ANSIBLE_HOST_KEY_CHECKING="0",
        ANSIBLE_SSH_ARGS=f"-o ControlMaster=auto -o ControlPersist=60s -o ControlPath={hosts.HOME}/%h",
        ANSIBLE_HOME=str(hosts.HOME / "ansible"),
    )
    hosts.put_back(made)
    return took


if __name__ == "__main__":
    main()
