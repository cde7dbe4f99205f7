"""Stand-in for ``pulumi-resource-command``: the provider protocol around :mod:`.local`."""

from __future__ import annotations

import secrets
import sys
from functools import partial
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from runcrate_iac.engine.standin.capture import CommandFailed
from runcrate_iac.engine.standin.local import RESULTS, execute, problems
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
_NOTE = "commands are run by runcrate-iac's stand-in for pulumi-resource-command: Pulumi's downloads were out of reach"
_UNKNOWN_RESULTS = {"stdout": UNKNOWN, "stderr": UNKNOWN}


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
        kind = request.urn.split("::")[2].rsplit("$", 1)[-1]
        if kind != _TYPE:
            _refuse(kind, context)
        inputs = from_wire(request.news)
        inputs.setdefault("addPreviousOutputInEnv", True)
        failures = [
            provider_pb2.CheckFailure(property=name, reason=reason)
            for name, reason in problems(without_secrets(inputs)).items()
        ]
        return provider_pb2.CheckResponse(inputs=to_wire(inputs), failures=failures)

    def Diff(self, request: provider_pb2.DiffRequest, context: Any) -> provider_pb2.DiffResponse:
        old, new = without_secrets(from_wire(request.old_inputs)), without_secrets(from_wire(request.news))
        changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        answer = provider_pb2.DiffResponse
        return answer(
            changes=answer.DIFF_SOME if changed else answer.DIFF_NONE,
            diffs=changed,
            replaces=[key for key in changed if key == "triggers"],
        )

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        inputs = from_wire(request.properties)
        results = _UNKNOWN_RESULTS if request.preview else self._run("create", inputs, {}, request.urn, context)
        identity = f"{request.urn.rsplit('::', 1)[-1]}{secrets.token_hex(4)}"
        return provider_pb2.CreateResponse(id=identity, properties=_outputs(inputs, results))

    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        inputs, state = from_wire(request.news), from_wire(request.olds)
        verb = "create" if inputs.get("update") is None else "update"
        results = state | _UNKNOWN_RESULTS if request.preview else self._run(verb, inputs, state, request.urn, context)
        return provider_pb2.UpdateResponse(properties=_outputs(inputs, results))

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        state = from_wire(request.properties)
        self._run("delete", state, state, request.urn, context)
        return empty_pb2.Empty()

    def Read(self, request: provider_pb2.ReadRequest, context: Any) -> provider_pb2.ReadResponse:
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def Invoke(self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext) -> Any:
        _refuse(request.tok, context)

    def _run(self, verb: str, inputs: Values, state: Values, urn: str, context: grpc.ServicerContext) -> Values:
        plain = without_secrets(inputs)
        try:
            show = partial(self._log.status, urn=urn)
            return execute(self._children, plain.get(verb), plain, without_secrets(state), show)
        except CommandFailed as failure:
            context.abort(grpc.StatusCode.UNKNOWN, failure.how)


def _outputs(inputs: Values, results: Values) -> struct_pb2.Struct:
    """The inputs as they are; the results secret where any input is, since each depends on all of them."""
    kept = {key: results[key] for key in RESULTS if key in results}
    if is_secret(inputs):
        kept = {key: value if is_secret(value) else secret(value) for key, value in kept.items()}
    return to_wire({**inputs, **kept})


def _refuse(token: str, context: grpc.ServicerContext) -> NoReturn:
    context.abort(
        grpc.StatusCode.UNIMPLEMENTED,
        f"{token} needs the real pulumi-resource-command plugin; this stand-in knows {_TYPE} only. "
        f"Install it with: pulumi plugin install resource command {COMMAND_PLUGIN}",
    )


def main() -> None:
    """Serve until the engine is done."""
    provider = CommandProvider(EngineLog(sys.argv[-1]))
    serve(lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server), provider.stop)


if __name__ == "__main__":
    main()
