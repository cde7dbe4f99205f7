"""Pulumi's Automation API, and nothing else of ours: the only importer of ``pulumi.automation``."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from pulumi import automation
from semver import VersionInfo

from runcrate_iac.engine.install import Engine
from runcrate_iac.errors import Refused, RuncrateError
from runcrate_iac.paths import cluster_dir, private_dir, state_dir, write_atomic

PROJECT = "runcrate-iac"


class PulumiFailed(RuncrateError):
    """A Pulumi operation ended with an error; what it printed is the message."""


class Stack:
    """The Pulumi stack of one cluster: file backend, passphrase kept in the state folder."""

    def __init__(self, engine: Engine, name: str, program: Callable[[], None] | None = None) -> None:
        """``program`` declares the resources; None where only ``destroy`` is wanted."""
        root = private_dir(state_dir() / "pulumi")
        self._work = private_dir(_work(name))
        self._name = name
        self._log = private_dir(cluster_dir(name) / "logs") / "pulumi.log"
        self._command = _Command(engine, self._log)
        self._stack = _run(
            self._log,
            automation.create_or_select_stack,
            stack_name=name,
            project_name=PROJECT,
            program=program or _nothing,
            opts=automation.LocalWorkspaceOptions(
                work_dir=str(self._work),
                env_vars={
                    **engine.env(),
                    "PULUMI_BACKEND_URL": private_dir(root / "state").as_uri(),
                    "PULUMI_CONFIG_PASSPHRASE_FILE": str(_passphrase(root)),
                    "GRPC_ENABLE_FORK_SUPPORT": "false",
                },
                pulumi_command=self._command,
            ),
        )

    def up(self) -> int:
        """Make the resources as declared; return how many changed. What a killed Pulumi left is ended first.

        Raises :class:`PulumiFailed`; :class:`Refused` where another Pulumi works on the stack.
        """
        end_orphans(self._name)
        _run(self._log, self._stack.cancel)
        result = _run(self._log, self._stack.up, suppress_outputs=True, color="never")
        return sum(count for kind, count in (result.summary.resource_changes or {}).items() if str(kind) != "same")

    def preview(self) -> Mapping[str, int]:
        """How many resources would be created, updated, …; touches nothing."""
        result = _run(self._log, self._stack.preview, color="never")
        return {str(getattr(kind, "value", kind)): count for kind, count in result.change_summary.items()}

    def destroy(self) -> None:
        """Delete every resource, and the stack with its history; what a killed Pulumi left is ended first."""
        end_orphans(self._name)
        _run(self._log, self._stack.cancel)
        _run(self._log, self._stack.destroy, color="never", refresh=False, remove=True)
        shutil.rmtree(self._work)

    def interrupt(self) -> bool:
        """Ask a running operation to end: its commands are ended, and what it did is in the state.

        Returns whether one was running to be asked.
        """
        return self._command.signal(signal.SIGINT)

    def kill(self) -> None:
        """End a running operation and its commands at once."""
        self._command.kill()


def left_behind(name: str) -> bool:
    """Whether a stack of that name may still have resources, since it was not destroyed to its end."""
    return _work(name).exists()


def end_orphans(name: str) -> None:
    """End the Pulumi of a command that was killed: it and its steps run in the stack's own folder."""
    work = _work(name)
    for process in psutil.process_iter(["cwd"]):
        if process.info["cwd"] == str(work):
            _kill(process)


def _work(name: str) -> Path:
    return state_dir() / "pulumi" / "work" / name


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def _run(log: Path, operation: Callable[..., Any], **options: Any) -> Any:
    try:
        return operation(**options)
    except automation.ConcurrentUpdateError as error:
        raise Refused(f"another Pulumi works on this stack: {error}", "wait for it to end") from error
    except automation.CommandError as error:
        raise PulumiFailed(_errors(str(error)), f"all that Pulumi printed is in {log}") from error


def _errors(printed: str) -> str:
    """The error lines of what Pulumi printed, each once; all of it where there is none."""
    lines = [line.split("error:", 1)[1].strip() for line in printed.splitlines() if line.lstrip().startswith("error:")]
    return "\n".join(dict.fromkeys(lines)) or printed


def _nothing() -> None:
    """Declare no resource."""


def _passphrase(root: Path) -> Path:
    path = root / "passphrase"
    if not path.exists():
        mine = root / f"passphrase.{os.getpid()}"
        write_atomic(mine, secrets.token_urlsafe(32))
        with suppress(FileExistsError):  # two commands at once: the first one's holds
            path.hardlink_to(mine)
        mine.unlink()
    return path


class _Command(automation.PulumiCommand):
    """The engine's ``pulumi``, in a session of its own: a terminal's Ctrl-C reaches us alone; we pass it on once."""

    def __init__(self, engine: Engine, log: Path) -> None:
        self._log = log
        self.command = str(engine.root / "bin" / "pulumi")
        self.version = VersionInfo.parse(engine.version)
        self._running: subprocess.Popen[str] | None = None

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,  # noqa: ARG002
        on_error: Callable[[str], Any] | None = None,  # noqa: ARG002
    ) -> automation.CommandResult:
        # The user's own Pulumi settings are not this stack's; a passphrase in the shell would win over the file.
        env = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        env |= {**additional_env, "PULUMI_AUTOMATION_API": "true"}
        command = [self.command, "--non-interactive", *args]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True,
            start_new_session=True,
        ) as self._running:  # fmt: skip
            stdout, stderr = self._running.communicate()
            code = self._running.returncode
        self._running = None
        with suppress(OSError), self._log.open("a") as log:
            log.write(f"$ pulumi {' '.join(args)}\n{stdout}\n{stderr}\n")
        result = automation.CommandResult(stdout=stdout.rstrip(), stderr=stderr.rstrip(), code=code)
        if code != 0:
            raise automation.errors.create_command_error(result)
        return result

    def signal(self, number: int) -> bool:
        running = self._running
        if running is None or running.poll() is not None:
            return False
        running.send_signal(number)
        return True

    def kill(self) -> None:
        running = self._running
        if running is None or running.poll() is not None:
            return
        with suppress(psutil.NoSuchProcess):
            processes = psutil.Process(running.pid).children(recursive=True)
            running.kill()
            for process in processes:
                _kill(process)
