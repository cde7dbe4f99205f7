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

from runcrate_iac.engine import stack_files
from runcrate_iac.engine.install import Engine
from runcrate_iac.engine.stack_files import PROJECT
from runcrate_iac.errors import Refused, RuncrateError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.feed import Feed
from runcrate_iac.model.progress import Report, Step
from runcrate_iac.paths import cluster_dir, private_dir, state_dir, write_atomic

OPERATION_SECONDS = 120.0
"""How long an operation may take that is not `up`, whose limit is the cluster's deadline: none makes a machine wait."""
UNLIMITED = ("up", "preview")
"""Those that run our program and steps: who calls them ends them."""
KILLED_SECONDS = 5.0


class PulumiFailed(RuncrateError):
    """A Pulumi operation ended with an error; what it printed is the message."""


class PulumiHung(PulumiFailed):
    """A Pulumi operation did not end in its time, and was killed."""


class Stack:
    """The Pulumi stack of one cluster: file backend, passphrase kept in the state folder."""

    def __init__(
        self, engine: Engine, name: str, program: Callable[[], None] | None = None, report: Report | None = None
    ) -> None:
        """``program`` declares the resources; None where only ``destroy`` is wanted.

        ``report`` hears of damaged files that were set aside. Raises
        :class:`~runcrate_iac.errors.StateDamaged` where they belong to a cluster that lives and is to go on.
        """
        self._name = name
        self._report = report or Feed(name, Step.MACHINES).report
        self._refuse_damaged(goes_on=program is not None)
        root = private_dir(stack_files.root())
        self._work = private_dir(stack_files.work(name))
        write_atomic(self._work / "Pulumi.yaml", stack_files.PROJECT_FILE)
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
                    "RUNCRATE_IAC_HOME": str(state_dir()),  # it may be relative, to where this process runs
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
        """Delete every resource, and the stack with its history; what a killed Pulumi left is ended first.

        For a cluster whose machines are released: where Pulumi can't, its files are set aside, and the name is free.
        Raises :class:`PulumiHung`; :class:`Refused` where another Pulumi works on the stack.
        """
        end_orphans(self._name)
        try:
            _run(self._log, self._stack.cancel)
            _run(self._log, self._stack.destroy, color="never", refresh=False, remove=True)
            shutil.rmtree(self._work)
        except PulumiHung:
            raise
        except PulumiFailed as error:
            kept = stack_files.set_aside(self._name)
            self._report(f"Pulumi could not tidy up: {error.message}\nwhat it knew is kept in {kept}", None)

    def _refuse_damaged(self, *, goes_on: bool) -> None:
        stack_files.mend_store()
        what = stack_files.damage(self._name)
        if not what:
            return
        view = Ledger().current(self._name) if goes_on else None
        if view is not None:
            raise stack_files.refuse(view, what)
        kept = stack_files.set_aside(self._name)
        self._report(f"Pulumi's state of {self._name} was damaged: {what}\nit is kept in {kept}", None)

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
    return stack_files.work(name).exists()


def end_orphans(name: str) -> None:
    """End the Pulumi of a command that was killed: it and its steps run in the stack's own folder."""
    work = stack_files.work(name).resolve()  # the kernel tells a process's folder without symbolic links
    for process in psutil.process_iter(["cwd"]):
        if process.info["cwd"] == str(work):
            _kill(process)


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
            errors="replace", start_new_session=True,
        ) as running:  # fmt: skip
            self._running = running
            stdout, stderr = self._ended(running, None if args[0] in UNLIMITED else OPERATION_SECONDS)
            code = running.returncode
        self._running = None
        with suppress(OSError), self._log.open("a") as log:
            log.write(f"$ pulumi {' '.join(args)}\n{stdout}\n{stderr}\n")
        result = automation.CommandResult(stdout=stdout.rstrip(), stderr=stderr.rstrip(), code=code)
        if code != 0:
            raise automation.errors.create_command_error(result)
        return result

    def _ended(self, running: subprocess.Popen[str], limit: float | None) -> tuple[str, str]:
        """What the operation printed; it is killed at its limit."""
        try:
            return running.communicate(timeout=limit)
        except subprocess.TimeoutExpired as late:
            words = " ".join(map(str, late.cmd[2:]))
            self.kill()
            with suppress(subprocess.TimeoutExpired):  # what escaped the kill may keep the pipes open
                running.communicate(timeout=KILLED_SECONDS)
            raise PulumiHung(
                f"`pulumi {words}` did not end in {limit:.0f} s and was killed", f"the log is {self._log}"
            ) from None

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
