"""A computer of its own for commands of ours, with a provider whose machines cost nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from runcrate_iac.engine.program import owner
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Note
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.specfile import load

PLUGINS = Path(__file__).parent / "plugins"
FAILS = {"fault": "failed", "node": "node-1", "done": True}
"""node-1's machine is made and does not start."""
HANGS = {"fault": "hang", "call": "create", "done": True, "times": "always"}
"""Every machine is made, and the provider does not say so."""
RUN = (sys.executable, "-c", "from runcrate_iac.cli import main; main()")


@dataclass
class Lab:
    """A computer of its own: state folder, provider, spec file."""

    root: Path

    @property
    def machines(self) -> list[str]:
        """The provider's own list."""
        return sorted(file.name for file in (self.root / "cloud").glob("*.node-*"))

    def processes(self) -> list[str]:
        """What runs in this lab's folders."""
        running = psutil.process_iter(["cwd", "cmdline"])
        return [str(p.info["cmdline"]) for p in running if str(p.info["cwd"] or "").startswith(str(self.root))]

    def spec(self, **fields: Any) -> Path:
        """A spec file; its join has a few seconds."""
        document = {"name": "lab", "nodes": 2, "software": "slurm", "provider": "fakecloud", "join_timeout": 6}
        path = self.root / "lab.yaml"
        path.write_text(yaml.safe_dump(document | fields))
        return path

    @property
    def env(self) -> dict[str, str]:
        """The environment of its commands."""
        return os.environ | {
            "RUNCRATE_IAC_HOME": str(self.root / "home"),
            "FAKECLOUD": str(self.root / "cloud"),
            "PYTHONPATH": os.pathsep.join([str(self.root / "plugins"), os.environ.get("PYTHONPATH", "")]),
        }

    def ready(self, **fields: Any) -> None:
        """Make a cluster of two nodes that is ready, as its ledger and its provider tell."""
        (self.root / "home").mkdir()
        ledger = Ledger(self.root / "home" / "ledger.db")
        spec = load(self.spec(**{"join_timeout": 600} | fields)).model_dump(mode="json")
        facts = {"owner": owner("lab"), "spec": spec, "deadline": ledger.now(), "price_per_hour": "5"}
        ledger.record("lab", "lab-1", Happened.RESERVED, **facts)
        here = "127.0.0.1"
        machines = [
            {"index": i, "id": f"lab-1.node-{i}", "host": here, "port": 9 + i, "endpoint": f"{here}:{51820 + i}"}
            for i in range(2)
        ]
        ledger.note("lab", "lab-1", Note.ASKED)
        ledger.note("lab", "lab-1", Note.MACHINES, machines=machines)
        for happened in (Happened.JOINED, Happened.CHECKED):
            ledger.record("lab", "lab-1", happened)
        ledger.close()
        for machine in machines:
            (self.root / "cloud" / str(machine["id"])).touch()

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start a command of ours."""
        command = [*RUN, *(str(word) for word in words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.env, stdout=pipe, stderr=pipe, text=True, cwd=self.root)

    def run(self, *words: str | Path) -> tuple[int, str, str]:
        """Run a command of ours to its end: exit code, output, errors."""
        process = self.start(*words)
        stdout, stderr = process.communicate(timeout=120)
        return process.returncode, stdout, stderr

    def state(self) -> str:
        """The cluster's state, as the command line tells it."""
        return str(json.loads(self.run("status", "lab", "--json")[1])["state"])

    @classmethod
    def made(cls, root: Path) -> Lab:
        """An empty lab with the provider installed as a third party's would be."""
        (root / "cloud").mkdir()
        info = root / "plugins" / "fakecloud-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakecloud\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[runcrate_iac.providers]\nfakecloud = fakecloud:FakeCloud\n")
        (root / "plugins" / "fakecloud.py").symlink_to(PLUGINS / "fakecloud.py")
        return cls(root)
