"""The language stand-in runs programs, and prepares projects, as Pulumi's own host does."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi import automation
from pulumi_command import local

from runcrate_iac.engine.install import Engine

pytestmark = pytest.mark.engine


ENVIRONMENT = (
    "name: tried\nmain: inner\nruntime:\n  name: python\n  options: {{toolchain: pip, virtualenv: {folder}}}\n"
)
PROGRAM = """
import os, pathlib, sys
import helper, pulumi
from pulumi import dynamic

class Doubler(dynamic.ResourceProvider):
    def create(self, props):
        return dynamic.CreateResult("1", {"twice": props["n"] * 2})

class Double(dynamic.Resource):
    twice: pulumi.Output[int]

config = pulumi.Config()
pulumi.export("seen", [helper.WORD, pathlib.Path.cwd().name, config.require("plain"), pulumi.get_stack()])
pulumi.export("python", [sys.prefix, os.environ["VIRTUAL_ENV"]])
pulumi.export("hidden", config.require_secret("word"))
pulumi.export("twice", Double(Doubler(), "r", {"n": 4, "twice": None}).twice)
"""


def test_a_project_s_options_reach_its_program(cli: Any) -> None:
    """``main``, ``virtualenv``, configuration and secrets are as declared, and dynamic providers run."""
    cli.write("raise SystemExit('not this one')", ENVIRONMENT.format(folder=sys.prefix))
    inner = cli.folder / "inner"
    inner.mkdir()
    (inner / "helper.py").write_text("WORD = 'helped'\n")
    (inner / "__main__.py").write_text(PROGRAM)
    cli("stack", "init", "dev")
    cli("config", "set-all", "--plaintext", "plain=text", "--secret", "word=hush")
    cli.up()
    assert json.loads(cli("stack", "output", "--json")) == {
        "seen": ["helped", "inner", "text", "dev"],
        "python": [sys.prefix, sys.prefix],
        "hidden": "[secret]",
        "twice": 8,
    }


def test_what_is_wrong_with_a_program_is_reported(cli: Any) -> None:
    """An exception is shown with its place and the prints before it, an exit code by its number."""
    cli.write("print('I print')\nraise ValueError('boom')\n")
    cli("stack", "init", "dev")
    printed = cli("preview", fails=True)
    assert "I print" in printed
    assert 'project/__main__.py", line 2' in printed
    assert "ValueError: boom" in printed
    assert "non-zero exit code" not in printed
    cli.write("import sys\nsys.exit(3)\n")
    assert "program exited with non-zero exit code: 3" in cli("preview", fails=True)


def test_what_is_wrong_with_a_project_is_reported(cli: Any) -> None:
    """A folder that is no virtual environment, and a toolchain that the stand-in lacks, are named."""
    cli.write("", "name: tried\nruntime:\n  name: python\n  options: {virtualenv: broken}\n")
    (cli.folder / "broken").mkdir()
    (cli.folder / "broken/file").touch()
    cli("stack", "init", "dev")
    printed = cli("preview", fails=True)
    assert "broken', but it doesn't appear to be a virtual environment" in printed
    assert "pulumi install" in printed
    cli.write("", "name: tried\nruntime:\n  name: python\n  options: {toolchain: poetry}\n")
    assert "not 'poetry'" in cli("preview", fails=True)


def test_about_lists_the_plugin_and_the_interpreter(cli: Any) -> None:
    """``pulumi about`` knows the interpreter, its packages, and that the program needs the command plugin."""
    cli.write("")
    printed = cli("about")
    assert sys.version.split()[0] in printed
    assert "pip" in printed
    assert "command  1.2.1" in printed


def _wheel(folder: Path, name: str, version: str) -> None:
    """A package of one module, made by hand so that no index is needed."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = '{version}'\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def test_pulumi_new_makes_a_project_with_its_dependencies(cli: Any, tmp_path: Path) -> None:
    """``pulumi new`` fills in a project and installs for it; ``install`` says what can't be installed (C24)."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name, version in (("setuptools", "999"), ("wheel", "999"), ("greeting", "1.5")):
        _wheel(wheels, name, version)
    template = tmp_path / "template"
    template.mkdir()
    (template / "Pulumi.yaml").write_text(
        "name: ${PROJECT}\ndescription: ${DESCRIPTION}\nruntime: python\n"
        "template:\n  description: a tried one\n  config:\n    size: {description: How many, default: '2'}\n"
    )
    (template / "__main__.py").write_text("")
    (template / "requirements.txt").write_text("greeting==1.5\n")
    cli.env = cli.env | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    printed = cli("new", str(template), "--yes", "--name", "mine")
    assert "Finished installing dependencies" in printed
    assert "name: mine" in (cli.folder / "Pulumi.yaml").read_text()
    assert "virtualenv: venv" in (cli.folder / "Pulumi.yaml").read_text()
    assert 'mine:size: "2"' in (cli.folder / "Pulumi.dev.yaml").read_text()
    told = subprocess.check_output([cli.folder / "venv/bin/python", "-c", "import greeting; print(greeting.VERSION)"])
    assert told == b"1.5\n"
    (cli.folder / "requirements.txt").write_text("there-is-no-such-package\n")
    printed = cli("install", fails=True)
    assert "No matching distribution found for there-is-no-such-package" in printed
    assert "requirements.txt` failed: exit status 1" in printed


def test_a_program_inside_our_own_process_uses_the_same_engine(
    pulumi_engine: Engine, standin_env: dict[str, str], tmp_path: Path
) -> None:
    """The Automation API's inline programs run their commands by the same stand-in."""

    def program() -> None:
        pulumi.export("printed", local.Command("step", create="echo inline").stdout)

    options = automation.LocalWorkspaceOptions(
        work_dir=str(tmp_path),
        env_vars=standin_env,
        pulumi_command=automation.PulumiCommand(root=str(pulumi_engine.root)),
    )
    stack = automation.create_or_select_stack("dev", project_name="inline", program=program, opts=options)
    assert stack.up().outputs["printed"].value == "inline"
