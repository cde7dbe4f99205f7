"""The Pulumi engine on this computer: found on PATH, downloaded, or built with stand-ins for its plugins.

Nothing of Pulumi's Python SDK is imported here: :func:`find` is on the way of every command.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from runcrate_iac import paths
from runcrate_iac.engine import gobuild, launchers, official, onpath
from runcrate_iac.engine.versions import ENGINE
from runcrate_iac.errors import Failed, ToolMissing
from runcrate_iac.model.base import Model
from runcrate_iac.model.progress import Report

_RECORD = "engine.json"
_STANDINS = "standins"
_UNFINISHED = ".new-"
_LOCK_SECONDS = 5400.0


class Source(StrEnum):
    """The rung of the ladder that an engine comes from."""

    PATH = "path"
    OFFICIAL = "official"
    BUILT = "built"


class Engine(Model):
    """A Pulumi CLI that can run Python programs with command resources."""

    root: Path
    """The folder with ``bin/pulumi``, as ``pulumi.automation.PulumiCommand(root=...)`` takes it."""
    version: str
    source: Source
    standins: tuple[str, ...] = ()
    """The plugins that stand-ins take the place of, by their executables' names."""

    def env(self) -> dict[str, str]:
        """The variables that a shell or an Automation API call needs to use this Pulumi.

        A command plugin that the user has fetched since goes before the stand-in.
        """
        folders = [self.root / "bin", Path(sys.executable).parent]
        if launchers.COMMAND in self.standins and not onpath.has_command_plugin():
            folders.insert(1, self.root / _STANDINS)
        first = list(map(str, folders))
        inherited = os.environ.get("PATH", os.defpath).split(os.pathsep)
        inherited = [entry for entry in inherited if entry not in first and not Path(entry).is_relative_to(_home())]
        return {"PATH": os.pathsep.join([*first, *inherited]), "PULUMI_SKIP_UPDATE_CHECK": "true"}


def find() -> Engine | None:
    """The engine to use, if there is a complete one. Touches no network and writes nothing."""
    installed = onpath.look(_home())
    if installed and installed.executable.parent.name == "bin" and onpath.has_command_plugin():
        root = installed.executable.parent.parent
        return Engine(root=root, version=installed.version, source=Source.PATH)
    linked = [_linked(installed)] if installed else []
    return next(filter(None, map(_read, [*linked, _official(), _built()])), None)


def require() -> Engine:
    """The engine of this computer.

    Raises :class:`ToolMissing` where there is none.
    """
    engine = find()
    if engine is None:
        raise ToolMissing("Pulumi is missing on this computer", "runcrate-iac setup")
    return engine


def install(report: Report) -> Engine:
    """The engine to use, made if there is none: the ladder's first rung that holds.

    Safe to call from several processes at once. Raises :class:`~runcrate_iac.errors.ToolMissing` where it
    can be neither downloaded nor built.
    """
    if engine := find():
        return engine
    with _locked(report):
        return find() or _make(report)


def _make(report: Report) -> Engine:
    installed = onpath.look(_home())
    online = official.reachable()
    if installed:
        if not onpath.has_command_plugin() and online:
            official.fetch_command_plugin(installed.executable, report)
        with _fresh(_linked(installed)) as root:
            (root / "bin/pulumi").symlink_to(installed.executable)
            return find() or _finish(root, _linked(installed), installed.version, Source.PATH, ())
    if online:
        with _fresh(_official()) as root:
            if official.download(root, report):
                official.fetch_command_plugin(root / "bin/pulumi", report)
                return _finish(root, _official(), ENGINE, Source.OFFICIAL, ())
    report("Pulumi's official downloads are out of reach: building it from Go modules", None)
    with _fresh(_built()) as root:
        gobuild.build(root / "bin", report)
        return _finish(root, _built(), ENGINE, Source.BUILT, (launchers.LANGUAGE,))


def _finish(root: Path, target: Path, version: str, source: Source, standins: tuple[str, ...]) -> Engine:
    """Add the stand-ins that are needed to what was made in ``root`` and put it in its place."""
    # The engine looks for its language hosts beside itself. The command plugin's place is on PATH, and there in a
    # folder of its own, so that it can be left out.
    launchers.write(root / "bin", standins)
    if not onpath.has_command_plugin():
        launchers.write(root / _STANDINS, (launchers.COMMAND,))
        standins = (*standins, launchers.COMMAND)
    engine = Engine(root=target, version=version, source=source, standins=standins)
    (root / _RECORD).write_text(engine.model_dump_json())
    shutil.rmtree(target, ignore_errors=True)
    root.rename(target)
    return engine


def _home() -> Path:
    return paths.cache_dir().resolve() / "engine"


def _official() -> Path:
    return _home() / f"official-{ENGINE}"


def _built() -> Path:
    return _home() / f"built-{gobuild.key()}"


def _linked(installed: onpath.Installed) -> Path:
    """Where a pulumi of the user's is linked to, beside the stand-in for what it lacks."""
    return _home() / f"path-{installed.version}"


def _read(root: Path) -> Engine | None:
    """The engine in this folder, if all of it is there."""
    try:
        engine = Engine.model_validate_json((root / _RECORD).read_text())
    except (OSError, ValidationError):
        return None
    complete = launchers.COMMAND in engine.standins or onpath.has_command_plugin()
    return engine if complete and (root / "bin/pulumi").exists() else None


@contextmanager
def _fresh(target: Path) -> Iterator[Path]:
    """A new folder beside ``target``, removed again unless it was renamed to it."""
    root = Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{target.name}.", dir=_home()))
    root.chmod(0o755)
    (root / "bin").mkdir()
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _locked(report: Report) -> Iterator[None]:
    """One installation at a time on this computer; the second waits for the first and finds its work."""
    deadline = time.monotonic() + _LOCK_SECONDS
    _home().mkdir(parents=True, exist_ok=True)
    with (_home() / ".lock").open("a") as lock:
        waiting = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Failed(
                        f"another installation of the engine holds {lock.name} for over {_LOCK_SECONDS:.0f} s",
                        "end that process and try again",
                    ) from None
                if not waiting:
                    report("waiting for another installation of the engine to end", None)
                waiting = True
                time.sleep(1)
        for left_behind in _home().glob(f"{_UNFINISHED}*"):  # by an installation that was killed
            shutil.rmtree(left_behind, ignore_errors=True)
        yield
