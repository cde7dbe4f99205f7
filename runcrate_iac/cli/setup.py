"""``runcrate-iac setup``."""

from __future__ import annotations

import json
import shlex
import sys
import time
from typing import Annotated

import typer

from runcrate_iac.cli import output
from runcrate_iac.model.progress import Report

PrintEnv = Annotated[
    bool, typer.Option("--print-env", help='Print the lines for a shell: eval "$(runcrate-iac setup --print-env)"')
]


def setup(yes: output.Yes = False, print_env: PrintEnv = False, as_json: output.AsJson = False) -> None:
    """Get what `doctor` finds missing: packages of this system, and Pulumi (found, downloaded, or built)."""
    from runcrate_iac.engine import doctor, install  # noqa: PLC0415 - looks at the computer when asked

    if not print_env:
        packages = doctor.missing_packages()
        if packages and output.confirm(f"Install {' '.join(packages)}?", yes=yes):
            doctor.install_packages(say(as_json=as_json))
        install.install(say(as_json=as_json))
    engine = install.require()
    if as_json:
        output.document(engine.model_dump(mode="json") | {"env": engine.env()})
    elif print_env:
        for key, value in engine.env().items():
            sys.stdout.write(f"export {key}={shlex.quote(value)}\n")
    else:
        output.console.print(f"Pulumi {engine.version} ({engine.source}) is ready; this computer has what it needs")


def say(*, as_json: bool) -> Report:
    """A report that writes each line to standard error, with the seconds since now."""
    begun = time.monotonic()

    def say(message: str, node: str | None) -> None:  # noqa: ARG001
        seconds = round(time.monotonic() - begun, 1)
        news = json.dumps({"seconds": seconds, "message": message}) if as_json else f"[{seconds:6.1f} s] {message}"
        sys.stderr.write(news + "\n")

    return say
