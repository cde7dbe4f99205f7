"""Stand-in for ``pulumi-language-python``: runs programs with the official executor, which the Go module carries.

What the host does for ``pulumi new``, ``install``, ``preview``, ``up``, ``destroy`` and ``about``, as the real one
does it; code generation, ``package add`` and debuggers need the real one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from runcrate_iac.engine.standin import plugins
from runcrate_iac.engine.standin.process import Cancelled, Children, outcome
from runcrate_iac.engine.standin.serve import EngineLog, serve
from runcrate_iac.engine.standin.toolchain import Toolchain, ToolchainError
from runcrate_iac.engine.versions import ENGINE

_ALREADY_TOLD = 32  # the executor's exit code after it has shown the error itself
_NOTE = (
    "runcrate-iac's stand-in for pulumi-language-python runs this program, because Pulumi's downloads were out of reach"
)
_Prompt = language_pb2.RuntimeOptionPrompt


class PythonLanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Finds a project's interpreter, installs for it, and runs its program in a child process."""

    def __init__(self, engine: str, executor: Path) -> None:
        """``engine`` is its address; ``executor`` the script that runs a program."""
        self._engine = engine
        self._executor = executor
        self._log = EngineLog(engine)
        self._children = Children()

    def stop(self) -> None:
        """Kill what runs."""
        self._children.cancel()

    def Handshake(self, request: Any, context: Any) -> language_pb2.LanguageHandshakeResponse:
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=ENGINE)

    def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        self._children.cancel()
        return empty_pb2.Empty()

    def About(self, request: language_pb2.AboutRequest, context: grpc.ServicerContext) -> language_pb2.AboutResponse:
        toolchain = _toolchain(request.info, context)
        code = "import sys; print(sys.executable, '.'.join(map(str, sys.version_info[:3])), sep='\\n')"
        about = subprocess.run(
            [toolchain.python, "-c", code],
            env=toolchain.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        executable, version = about.stdout.split()
        return language_pb2.AboutResponse(executable=executable, version=version, metadata={"host": _NOTE})

    def GetRequiredPackages(
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        toolchain = _toolchain(request.info, context)
        if toolchain.absent:
            for chunk in self._install(toolchain, context):
                self._log.status(chunk.decode(errors="replace"))
        return language_pb2.GetRequiredPackagesResponse(packages=plugins.required(_packages(toolchain, context)))

    def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        found = _packages(_toolchain(request.info, context), context)
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=package.name, version=package.version)
                for package in found
                if package.direct or request.transitiveDependencies
            ]
        )

    def RuntimeOptionsPrompts(
        self, request: language_pb2.RuntimeOptionsRequest, context: Any
    ) -> language_pb2.RuntimeOptionsResponse:
        options = json_format.MessageToDict(request.info.options)
        if "toolchain" not in options:
            tools = ["pip", *(["uv"] if shutil.which("uv") else [])]
            prompt = _prompt(
                "toolchain", "The toolchain to use for installing dependencies and running the program", tools
            )
        elif options["toolchain"] == "pip" and "virtualenv" not in options:
            prompt = _prompt("virtualenv", "The virtualenv to use", ["venv"])
        else:
            return language_pb2.RuntimeOptionsResponse()
        return language_pb2.RuntimeOptionsResponse(prompts=[prompt])

    def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        for chunk in self._install(_toolchain(request.info, context), context):
            yield language_pb2.InstallDependenciesResponse(stdout=chunk)

    def Run(self, request: language_pb2.RunRequest, context: grpc.ServicerContext) -> language_pb2.RunResponse:
        self._log.status(_NOTE)
        toolchain = _toolchain(request.info, context)
        if request.attach_debugger:
            return language_pb2.RunResponse(error="this stand-in for pulumi-language-python cannot attach a debugger")
        try:
            toolchain.require()
            if toolchain.typechecker:
                checked = self._call(toolchain, ["-m", toolchain.typechecker, request.info.program_directory], {})
                if checked:
                    return language_pb2.RunResponse(error=f"{toolchain.typechecker} failed: {outcome(checked)}")
            configuration = {
                "PULUMI_CONFIG": json.dumps(dict(request.config)),
                "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
            }
            code = self._call(toolchain, self._program(request), configuration)
        except (ToolchainError, OSError) as error:
            return language_pb2.RunResponse(error=str(error))
        except Cancelled:
            return language_pb2.RunResponse(error="cancelled before the program was started")
        if code == _ALREADY_TOLD:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"program exited with non-zero exit code: {code}" if code else "")

    def _program(self, request: language_pb2.RunRequest) -> list[str]:
        """The executor's command line for this run."""
        options = {
            "monitor": request.monitor_address,
            "engine": self._engine,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": "true" if request.dryRun else "false",
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        flags = [part for name, value in options.items() if value for part in (f"--{name}", value)]
        return [str(self._executor), *flags, request.info.entry_point, *request.args]

    def _call(self, toolchain: Toolchain, arguments: list[str], variables: dict[str, str]) -> int:
        """Run the project's Python with our own outputs, which the engine shows; its return code."""
        environment = toolchain.environment() | variables
        with self._children.started([toolchain.python, *arguments], environment=environment) as child:
            pass
        return child.returncode

    def _install(self, toolchain: Toolchain, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Install what the project needs; what is printed on the way. Fails the call where a step fails."""
        try:
            for title, argv in toolchain.installation():
                yield f"{title}\n".encode()
                with self._children.started(
                    argv,
                    directory=toolchain.program,
                    environment=toolchain.environment(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                ) as child:
                    yield from child.stdout or ()
                if child.returncode:
                    context.abort(grpc.StatusCode.UNKNOWN, f"`{' '.join(argv)}` failed: {outcome(child.returncode)}")
        except (ToolchainError, OSError, Cancelled) as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error) or "cancelled")
        yield b"Finished installing dependencies\n\n"


def _toolchain(info: language_pb2.ProgramInfo, context: grpc.ServicerContext) -> Toolchain:
    """The project's toolchain; fails the call where its options are wrong."""
    try:
        options = json_format.MessageToDict(info.options)
        return Toolchain.of(Path(info.root_directory), Path(info.program_directory), options)
    except ToolchainError as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))


def _packages(toolchain: Toolchain, context: grpc.ServicerContext) -> Any:
    try:
        return toolchain.packages()
    except (ToolchainError, subprocess.TimeoutExpired) as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))


def _prompt(key: str, description: str, values: list[str]) -> language_pb2.RuntimeOptionPrompt:
    choices = [
        _Prompt.RuntimeOptionValue(promptType=_Prompt.STRING, stringValue=value, displayName=value) for value in values
    ]
    return _Prompt(key=key, description=description, promptType=_Prompt.STRING, choices=choices, default=choices[0])


def main() -> None:
    """Serve until the engine is done."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--executor", type=Path, required=True)
    arguments, rest = parser.parse_known_args()
    host = PythonLanguageHost(rest[-1], arguments.executor)
    serve(lambda server: language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server), host.stop)


if __name__ == "__main__":
    main()
