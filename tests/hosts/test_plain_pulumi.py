"""The same cluster from plain Pulumi, in the stack's folder: file backend, passphrase, no account."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.hosts.conftest import Computer

pytestmark = pytest.mark.hosts
STACK = Path(__file__).parents[2] / "stacks" / "local-slurm"


@dataclass(frozen=True)
class Project:
    """A Pulumi project in a folder, with the environment that `setup --print-env` gives."""

    folder: Path
    computer: Computer

    def pulumi(self, *words: str, fails: bool = False) -> str:
        """Run the Pulumi command line, which succeeds or ``fails``; its output."""
        exported = self.computer.run("setup", "--print-env").stdout
        pairs = (word.split("=", 1) for word in shlex.split(exported) if "=" in word)
        mine = {
            "PULUMI_BACKEND_URL": (self.folder.parent / "backend").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "rehearsal",
            "PULUMI_HOME": str(self.folder.parent / "pulumi-home"),
        }
        env = self.computer.env | dict(pairs) | mine
        command = ["pulumi", "--non-interactive", *words]
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + (done.stderr if fails else "")


@pytest.fixture(scope="module")
def project(computer: Computer, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The stack's folder, copied, with a stack `dev` and a cluster name of its own."""
    folder = tmp_path_factory.mktemp("plain") / "local-slurm"
    shutil.copytree(STACK, folder)
    (folder.parent / "backend").mkdir()
    found = Project(folder, computer)
    found.pulumi("stack", "init", "dev")
    found.pulumi("config", "set", "name", "plain")
    return found


def test_new_makes_a_project_of_ones_own(project: Project) -> None:
    """`pulumi new` from the stack gives a project with its own name and environment, and it previews (C24)."""
    mine = Project(project.folder.parent / "mine", project.computer)
    mine.folder.mkdir()
    mine.pulumi("new", str(STACK), "--yes", "--generate-only", "--name", "mine")
    (mine.folder / "requirements.txt").write_text(f"{STACK.parents[1]}\n")  # this checkout, as its README says
    mine.pulumi("stack", "init", "dev")
    mine.pulumi("config", "set", "name", "mine")
    assert "mine-machines" in mine.pulumi("preview")
    assert "name: mine" in (mine.folder / "Pulumi.yaml").read_text()
    assert (mine.folder / "venv").is_dir()


def test_preview_touches_nothing(project: Project) -> None:
    """`pulumi preview` shows a resource for each step and reserves nothing (X7, C24)."""
    told = project.pulumi("preview")
    assert all(f"plain-{step}" in told for step in ("machines", "join", "storage", "software", "check"))
    assert project.computer.leftovers("plain") == []


def test_a_join_that_fails_releases_everything(project: Project) -> None:
    """A late join under plain `pulumi up` fails with each node's reason, and no machine is left (C8)."""
    late = yaml.safe_load((project.folder / "cluster.yaml").read_text()) | {"join_timeout": 12}
    written = (project.folder / "cluster.yaml").read_text()
    (project.folder / "cluster.yaml").write_text(yaml.safe_dump(late))
    told = project.pulumi("up", "--yes", "--skip-preview", fails=True)
    (project.folder / "cluster.yaml").write_text(written)
    assert "node-0" in told
    assert "nothing is billed" in told
    assert project.computer.leftovers("plain") == []
    assert project.computer.status("plain")["state"] == "failed"


def test_up_brings_the_whole_cluster(project: Project) -> None:
    """`pulumi up`, after an attempt that failed too, makes a ready cluster that our commands reach (C24, C6)."""
    told = project.pulumi("up", "--yes", "--skip-preview")
    assert "SSH answers" in told
    assert project.computer.status("plain")["state"] == "ready"
    assert project.computer.run("ssh", "plain", "1", "--", "hostname").stdout == "node-1\n"
    login = project.pulumi("stack", "output", "login").split()
    done = subprocess.run([*login, "sinfo -h -o %T"], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == "idle\n"


def test_a_second_up_changes_nothing(project: Project) -> None:
    """`pulumi up` again finds every resource unchanged (C4)."""
    project.pulumi("up", "--yes", "--skip-preview", "--expect-no-changes")


def test_our_own_up_of_that_name_is_refused(project: Project) -> None:
    """A cluster belongs to one stack: the command line's `up` and `down` of it are refused, naming the stack (C7)."""
    done = project.computer.run("up", project.computer.spec(name="plain"), "--yes")
    assert done.returncode == 6
    assert "organization/local-slurm/dev" in done.stderr
    assert project.computer.run("down", "plain", "--yes").returncode == 6


def test_no_secret_is_in_the_state(project: Project) -> None:
    """Neither a private key nor a munge key stands in Pulumi's state (X4)."""
    state = project.pulumi("stack", "export", "--show-secrets")
    assert json.loads(state)["deployment"]["resources"]
    assert "PRIVATE KEY" not in state


def test_a_renamed_resource_keeps_its_cluster(project: Project) -> None:
    """Pulumi makes the new resource and then ends the old one; the cluster goes over to the new one (C7, X1)."""
    before = project.computer.status("plain")
    program = project.folder / "__main__.py"
    renamed = 'Cluster("renamed", spec, cluster_name=spec.pop("name"))'
    program.write_text(program.read_text().replace('Cluster(spec.pop("name"), spec)', renamed))
    told = project.pulumi("up", "--yes", "--skip-preview")
    assert "renamed-machines" in told
    after = project.computer.status("plain")
    assert [after[key] for key in ("cluster_id", "state")] == [before["cluster_id"], "ready"]
    assert project.computer.run("ssh", "plain", "1", "--", "hostname").stdout == "node-1\n"


def test_destroy_ends_every_machine_together(project: Project) -> None:
    """`pulumi destroy` leaves no process and no file of a machine (C7)."""
    project.pulumi("destroy", "--yes", "--skip-preview")
    assert project.computer.leftovers("plain") == []
    assert project.computer.status("plain")["state"] == "terminated"
