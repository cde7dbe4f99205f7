"""The executables that start the stand-ins: small shell scripts beside the engine, so that it finds them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

LANGUAGE = "pulumi-language-python"
COMMAND = "pulumi-resource-command"
EXECUTOR = "pulumi-language-python-exec"
MARK = "runcrate-iac stand-in"
"""In every launcher's text, so that one is never taken for the real plugin."""

_ARGUMENTS = {
    LANGUAGE: f'-m runcrate_iac.engine.standin.language --executor "$(dirname "$0")/{EXECUTOR}"',
    COMMAND: "-m runcrate_iac.engine.standin.command",
}
# -P: the folder that the engine runs in is the user's project, whose files must not be taken for modules.
_TEXT = """\
#!/bin/sh
# {mark} for {name}: see docs/engine.md
for python in python3 {recorded}; do
  if "$python" -P -c '{probe}' 2>/dev/null; then
    exec "$python" -P {arguments} "$@"
  fi
done
echo >&2 "{name} ({mark}): neither python3 on PATH nor {recorded} has runcrate-iac"
echo >&2 "  remedy: activate the environment it is installed in, or run: runcrate-iac setup"
exit 1
"""
_PROBE = 'from importlib.util import find_spec as f; exit(not (f("runcrate_iac") and f("pulumi")))'


def write(folder: Path, names: Iterable[str]) -> None:
    """Put the launchers of these plugins into ``folder``.

    They prefer the python3 on PATH, since the interpreter that installs the engine may be gone one day.
    """
    folder.mkdir(exist_ok=True)
    for name in names:
        file = folder / name
        recorded = shlex.quote(sys.executable)
        file.write_text(_TEXT.format(mark=MARK, name=name, recorded=recorded, probe=_PROBE, arguments=_ARGUMENTS[name]))
        file.chmod(0o755)


def is_standin(file: Path) -> bool:
    """Tell whether the executable is one of ours."""
    with file.open("rb") as stream:
        return MARK.encode() in stream.read(256)
