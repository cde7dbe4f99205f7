"""What ``command:local:Command`` does, apart from the protocol: its inputs' rules and the run of one command.

Read from the real provider 1.2.1 (``provider/pkg/provider/local`` of github.com/pulumi/pulumi-command).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runcrate_iac.engine.standin import assets
from runcrate_iac.engine.standin.capture import CommandFailed, run
from runcrate_iac.engine.standin.process import Children
from runcrate_iac.engine.standin.values import UNKNOWN, Values

RESULTS = ("stdout", "stderr", "assets", "archive")
_SHELL = ["/bin/sh", "-c"]
_LONGEST_ERROR = 256 * 1024  # characters
_STDOUT, _STDERR, _BOTH = "stdout", "stderr", "stdoutAndStderr"


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "create": (_text, "a string"),
    "update": (_text, "a string"),
    "delete": (_text, "a string"),
    "dir": (_text, "a string"),
    "stdin": (_text, "a string"),
    "logging": (lambda value: value in (_STDOUT, _STDERR, _BOTH, "none"), f"{_STDOUT}, {_STDERR}, {_BOTH} or none"),
    "interpreter": (_texts, "a list of strings"),
    "assetPaths": (_texts, "a list of strings"),
    "archivePaths": (_texts, "a list of strings"),
    "environment": (_text_map, "a map of strings"),
    "addPreviousOutputInEnv": (lambda value: isinstance(value, bool), "a boolean"),
    "triggers": (lambda value: isinstance(value, list), "a list"),
}


def problems(inputs: Values) -> dict[str, str]:
    """What is wrong with the inputs, by property."""
    found = {}
    for name, value in inputs.items():
        fits, kind = _RULES.get(name, (None, ""))
        if fits is None:
            found[name] = f"local.Command has no property {name!r}"
        elif value not in (None, UNKNOWN) and not fits(value):
            found[name] = f"{name} must be {kind}"
    return found


def execute(
    children: Children, command: str | None, inputs: Values, state: Values, show: Callable[[str], None]
) -> Values:
    """The results after the command has run, or the state's where there is none.

    ``inputs`` and ``state`` are without secret marks; ``show`` gets each line that is to be logged.
    Raises :class:`CommandFailed` with the message that the real plugin gives.
    """
    results: Values = {"stdout": "", "stderr": ""} | {key: state[key] for key in RESULTS if key in state}
    if command is None:
        return results
    logged = inputs.get("logging") or _BOTH
    try:
        printed = run(
            children,
            [*(inputs.get("interpreter") or _SHELL), command],
            directory=inputs.get("dir"),
            environment=_environment(inputs, results),
            stdin=inputs.get("stdin") or "",
            on_stdout=show if logged in (_STDOUT, _BOTH) else None,
            on_stderr=show if logged in (_STDERR, _BOTH) else None,
        )
    except CommandFailed as failure:
        quoted = json.dumps(command, ensure_ascii=False)
        raise CommandFailed(f"{failure.how}: running {quoted}:\n{_tail(failure.printed)}", "") from failure
    results |= {"stdout": printed.stdout.removesuffix("\n"), "stderr": printed.stderr.removesuffix("\n")}
    directory = Path(inputs.get("dir") or Path.cwd())
    if inputs.get("assetPaths") is not None:
        results["assets"] = assets.assets(directory, inputs["assetPaths"])
    if inputs.get("archivePaths") is not None:
        results["archive"] = assets.archive(directory, inputs["archivePaths"])
    return results


def _tail(printed: str) -> str:
    """The end of it, where that is too much for an error: a gRPC status is an HTTP/2 header, at most 16 MiB encoded."""
    left_out = len(printed) - _LONGEST_ERROR
    return f"[{left_out} characters left out]\n{printed[left_out:]}" if left_out > 0 else printed


def _environment(inputs: Values, results: Values) -> dict[str, str]:
    """Ours, the user's, and what the last run printed: a variable holds 128 KiB at most (MAX_ARG_STRLEN of Linux)."""
    variables = {**os.environ, **(inputs.get("environment") or {})}
    if inputs.get("addPreviousOutputInEnv", True):
        for name in ("stdout", "stderr"):
            if results[name]:
                variables[f"PULUMI_COMMAND_{name.upper()}"] = results[name]
    return variables
