"""Which Python runs a project, what is installed for it, and how that is installed.

The rules are those of the real host (``sdk/v3/python/toolchain`` in Pulumi's Go module).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

_TOOLCHAINS = ("pip", "uv")
_TYPECHECKERS = ("mypy", "pyright")
# Run by the project's interpreter, which may have neither pip nor anything of ours.
_LIST = """
import importlib.metadata, json, pathlib, re
found, required = {}, set()
for package in importlib.metadata.distributions():
    name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
    if name in found:
        continue
    for line in package.requires or ():
        if "extra ==" not in line:
            required.add(re.sub(r"[-_.]+", "-", re.match(r"[\\w.-]+", line)[0]).lower())
    plugin = pathlib.Path(package.locate_file(name.replace("-", "_")), "pulumi-plugin.json")
    found[name] = {"name": name, "version": package.version,
                   "plugin": json.loads(plugin.read_text()) if plugin.is_file() else None}
print(json.dumps([{**entry, "direct": entry["name"] not in required} for entry in found.values()]))
"""


class ToolchainError(Exception):
    """The project's options or its environment are not usable; says why and what to do."""


class Package(NamedTuple):
    """One installed distribution."""

    name: str
    version: str
    plugin: dict[str, Any] | None
    """The content of its ``pulumi-plugin.json``."""
    direct: bool
    """No other distribution requires it."""


@dataclass(frozen=True)
class Toolchain:
    """One project's Python."""

    program: Path
    """The folder of the program, where requirements.txt is."""
    tool: str
    virtualenv: Path | None
    """None for whichever python3 is on PATH."""
    typechecker: str | None

    @classmethod
    def of(cls, root: Path, program: Path, options: Mapping[str, Any]) -> Toolchain:
        """The toolchain that Pulumi.yaml's ``runtime.options`` ask for; raises :class:`ToolchainError`."""
        tool = options.get("toolchain") or _detect(program)
        typechecker = options.get("typechecker")
        virtualenv = options.get("virtualenv")
        if tool not in _TOOLCHAINS:
            raise ToolchainError(
                f"the stand-in for pulumi-language-python knows the toolchains pip and uv, not {tool!r}"
            )
        if typechecker not in (None, *_TYPECHECKERS):
            raise ToolchainError(f"unsupported typechecker option: {typechecker!r}")
        if virtualenv is not None and not isinstance(virtualenv, str):
            raise ToolchainError(f"virtualenv option must be a string, got {virtualenv!r}")
        if virtualenv:
            folder: Path | None = root / virtualenv
        else:
            folder = _uv_environment(program) if tool == "uv" else None
        return cls(program, tool, folder, typechecker)

    @property
    def python(self) -> str:
        """The interpreter; raises :class:`ToolchainError` where there is none."""
        if self.virtualenv:
            return str(self.virtualenv / "bin/python")
        return _ambient_python()

    def environment(self) -> dict[str, str]:
        """The variables for the interpreter: those of an activated environment."""
        variables = dict(os.environ)
        if self.virtualenv:
            variables.pop("PYTHONHOME", None)
            variables["VIRTUAL_ENV"] = str(self.virtualenv)
            variables["PATH"] = os.pathsep.join([str(self.virtualenv / "bin"), variables.get("PATH", os.defpath)])
        return variables

    @property
    def ready(self) -> bool:
        """Whether there is an interpreter to run."""
        return self.virtualenv is None or (self.virtualenv / "bin/python").is_file()

    @property
    def absent(self) -> bool:
        """Whether a virtual environment is to be made, with nothing in its place yet."""
        folder = self.virtualenv
        return folder is not None and (not folder.exists() or (folder.is_dir() and not any(folder.iterdir())))

    def require(self) -> None:
        """Raise :class:`ToolchainError` where the virtual environment is missing or none."""
        if not self.ready:
            state = "doesn't exist" if self.absent else "doesn't appear to be a virtual environment"
            raise ToolchainError(
                f"The 'virtualenv' option in Pulumi.yaml is set to {str(self.virtualenv)!r}, but it {state}; "
                "run `pulumi install` to create it and install the dependencies into it"
            )

    def packages(self) -> list[Package]:
        """What is installed; raises :class:`ToolchainError`."""
        self.require()
        listing = subprocess.run(
            [self.python, "-c", _LIST],
            cwd=self.program,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if listing.returncode:
            raise ToolchainError(f"{self.python} could not list its packages:\n{listing.stderr}")
        return [Package(**entry) for entry in json.loads(listing.stdout)]

    def installation(self) -> Iterator[tuple[str, list[str]]]:
        """The steps that make the environment and install the dependencies: what to tell, what to run."""
        if self.tool == "uv":
            if not _above(self.program, "pyproject.toml"):
                yield "Initializing uv project...", ["uv", "init", "--bare", "--no-package", "--no-pin-python"]
                if (self.program / "requirements.txt").is_file():
                    yield "Adding requirements...", ["uv", "add", "--no-sync", "-r", "requirements.txt"]
            yield "Installing dependencies...", ["uv", "sync"]
            return
        if self.virtualenv and not self.ready:
            yield "Creating virtual environment...", [_ambient_python(), "-m", "venv", str(self.virtualenv)]
        pip = [self.python, "-m", "pip", "install"]
        yield "Updating pip, setuptools, and wheel...", [*pip, "--upgrade", "pip", "setuptools", "wheel"]
        if (self.program / "requirements.txt").is_file():
            yield "Installing dependencies...", [*pip, "-r", "requirements.txt"]


def _detect(program: Path) -> str:
    if _above(program, "uv.lock"):
        return "uv"
    return "poetry" if _above(program, "poetry.lock") else "pip"


def _above(folder: Path, name: str) -> Path | None:
    """The nearest folder, from this one up, that has such a file."""
    return next((parent for parent in (folder, *folder.parents) if (parent / name).is_file()), None)


def _uv_environment(program: Path) -> Path:
    project = _above(program, "uv.lock") or _above(program, "pyproject.toml") or program
    return project / (os.environ.get("UV_PROJECT_ENVIRONMENT") or ".venv")


def _ambient_python() -> str:
    chosen = os.environ.get("PULUMI_PYTHON_CMD")
    names = [chosen] if chosen else ["python3", "python"]
    for name in names:
        if found := shutil.which(name):
            return found
    raise ToolchainError(f"failed to locate any of {names} on your PATH. Have you installed Python 3.11 or greater?")
