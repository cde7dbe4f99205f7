"""Stand-in for ``pulumi-resource-command``: ``command:local:Command`` as the real plugin 1.2.1 behaves.

Read from the real provider's ``local/commandController.go`` and ``local/commandOutputs.go``.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from runcrate_iac.engine.standin.capture import CommandFailed, run
from runcrate_iac.engine.standin.process import Children
from runcrate_iac.engine.standin.serve import EngineLog, serve
from runcrate_iac.engine.standin.values import (
    UNKNOWN,
    Values,
    from_wire,
    is_secret,
    secret,
    to_wire,
    without_secrets,
)
from runcrate_iac.engine.versions import COMMAND_PLUGIN

_TYPE = "command:local:Command"
_NOTE = (
    "command resources are run by runcrate-iac's stand-in for pulumi-resource-command, because the real plugin "
    "could not be downloaded when the engine was installed"
)
_RESULTS = ("stdout", "stderr", "assets", "archive")
_SHELL = ["/bin/sh", "-c"]


class CommandProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Create, update and delete run a command; everything else is bookkeeping."""

    def __init__(self, log: EngineLog) -> None:
        """``log`` shows the commands' lines."""
        self._log = log
        self._children = Children()

    def stop(self) -> None:
        """Kill what runs."""
        self._children.cancel()

    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=COMMAND_PLUGIN)

    def CheckConfig(self, request: provider_pb2.CheckRequest, context: Any) -> provider_pb2.CheckResponse:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: Any) -> provider_pb2.DiffResponse:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        self._log.info(_NOTE)
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        self._children.cancel()
        return empty_pb2.Empty()

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        _refuse_other_types(request.urn, context)
        inputs = from_wire(request.news)
        inputs.setdefault("addPreviousOutputInEnv", True)
        return provider_pb2.CheckResponse(inputs=to_wire(inputs))

    def Diff(self, request: provider_pb2.DiffRequest, context: Any) -> provider_pb2.DiffResponse:
        old, new = without_secrets(from_wire(request.old_inputs)), without_secrets(from_wire(request.news))
        changed = sorted(
            key for key in old.keys() | new.keys() if old.get(key) != new.get(key) and key not in request.ignoreChanges
        )
        answer = provider_pb2.DiffResponse
        return answer(
            changes=answer.DIFF_SOME if changed else answer.DIFF_NONE,
            diffs=changed,
            replaces=[key for key in changed if key == "triggers"],
        )

    def Create(self, request: provider_pb2.CreateRequest, context: Any) -> provider_pb2.CreateResponse:
        inputs = from_wire(request.properties)
        results = {"stdout": UNKNOWN, "stderr": UNKNOWN}
        if not request.preview:
            results = self._run(inputs.get("create"), inputs, {}, request.urn, context)
        identity = f"{request.urn.rsplit('::', 1)[-1]}{secrets.token_hex(4)}"
        return provider_pb2.CreateResponse(id=identity, properties=_outputs(inputs, results))

    def Update(self, request: provider_pb2.UpdateRequest, context: Any) -> provider_pb2.UpdateResponse:
        inputs, state = from_wire(request.news), from_wire(request.olds)
        results: Values = {**state, "stdout": UNKNOWN, "stderr": UNKNOWN}
        if not request.preview:
            command = inputs.get("create") if inputs.get("update") is None else inputs["update"]
            results = self._run(command, inputs, state, request.urn, context)
        return provider_pb2.UpdateResponse(properties=_outputs(inputs, results))

    def Delete(self, request: provider_pb2.DeleteRequest, context: Any) -> empty_pb2.Empty:
        state = from_wire(request.properties)
        self._run(state.get("delete"), state, state, request.urn, context)
        return empty_pb2.Empty()

    def Read(self, request: provider_pb2.ReadRequest, context: Any) -> provider_pb2.ReadResponse:
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def _run(self, command: Any, inputs: Values, state: Values, urn: str, context: grpc.ServicerContext) -> Values:
        """What the command leaves, or the state's results where there is none. A failing command fails the call."""
        plain, before = without_secrets(inputs), without_secrets(state)
        results = {"stdout": "", "stderr": ""} | {key: before[key] for key in _RESULTS if key in before}
        if command is None:
            return results
        command = without_secrets(command)
        environment = {**os.environ, **plain.get("environment", {})}
        if plain.get("addPreviousOutputInEnv", True):
            previous = {f"PULUMI_COMMAND_{key.upper()}": results[key] for key in ("stdout", "stderr") if results[key]}
            environment |= previous

        def show(line: str) -> None:
            self._log.status(line, urn)

        shown = plain.get("logging", "stdoutAndStderr")
        try:
            printed = run(
                self._children,
                [*(plain.get("interpreter") or _SHELL), command],
                directory=plain.get("dir"),
                environment=environment,
                stdin=plain.get("stdin", ""),
                on_stdout=show if shown in {"stdout", "stdoutAndStderr"} else None,
                on_stderr=show if shown in {"stderr", "stdoutAndStderr"} else None,
            )
        except CommandFailed as failure:
            message = f"{failure.how}: running {json.dumps(command, ensure_ascii=False)}:\n{failure.printed}"
            context.abort(grpc.StatusCode.UNKNOWN, message)
        return results | {"stdout": printed.stdout.removesuffix("\n"), "stderr": printed.stderr.removesuffix("\n")}


def _outputs(inputs: Values, results: Values) -> Any:
    """The inputs as they are; the results secret where any input is, since each depends on all of them."""
    kept = {key: results[key] for key in _RESULTS if key in results}
    if is_secret(inputs):
        kept = {key: value if is_secret(value) else secret(value) for key, value in kept.items()}
    return to_wire({**inputs, **kept})


def _refuse_other_types(urn: str, context: grpc.ServicerContext) -> None:
    kind = urn.split("::")[2].rsplit("$", 1)[-1]
    if kind != _TYPE:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"{kind} needs the real pulumi-resource-command plugin; this stand-in knows {_TYPE} only. "
            f"Install it with: pulumi plugin install resource command {COMMAND_PLUGIN}",
        )


def main() -> None:
    """Serve until the engine is done."""
    provider = CommandProvider(EngineLog(sys.argv[-1]))
    serve(lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server), provider.stop)


if __name__ == "__main__":
    main()
