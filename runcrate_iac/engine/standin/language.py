"""Stand-in for ``pulumi-language-python``: runs programs with the official executor, which the Go module carries."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from runcrate_iac.engine.standin.serve import EngineLog, serve
from runcrate_iac.engine.versions import ENGINE

_ALREADY_TOLD = 32  # the executor's exit code after it has shown the error itself


class PythonLanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    def __init__(self, engine: str, executor: Path) -> None:
        self._engine = engine
        self._executor = executor
        self._log = EngineLog(engine)
        self._children: set[subprocess.Popen[bytes]] = set()

    def stop(self) -> None:
        for child in tuple(self._children):
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGTERM)

    def Handshake(self, request: Any, context: Any) -> language_pb2.LanguageHandshakeResponse:
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=ENGINE)

    def GetRequiredPackages(self, request: Any, context: Any) -> language_pb2.GetRequiredPackagesResponse:
        return language_pb2.GetRequiredPackagesResponse()

    def About(self, request: Any, context: Any) -> language_pb2.AboutResponse:
        return language_pb2.AboutResponse(executable=sys.executable, version=sys.version.split()[0])

    def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        self.stop()
        return empty_pb2.Empty()

    def Run(self, request: language_pb2.RunRequest, context: Any) -> language_pb2.RunResponse:
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
        argv = ["python3", str(self._executor)]
        for name, value in options.items():
            if value:
                argv += [f"--{name}", value]
        argv += [request.info.entry_point, *request.args]
        env = os.environ | {
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        child = subprocess.Popen(argv, env=env, process_group=0, stdin=subprocess.DEVNULL)
        self._children.add(child)
        code = child.wait()
        self._children.discard(child)
        if code == _ALREADY_TOLD:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"program exited with non-zero exit code: {code}" if code else "")


def main() -> None:
    """Serve until the engine is done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--executor", type=Path, required=True)
    parser.add_argument("engine")
    arguments, _ = parser.parse_known_args()
    host = PythonLanguageHost(arguments.engine, arguments.executor)
    serve(lambda server: language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server), host.stop)


if __name__ == "__main__":
    main()
