"""The real Pulumi engine with state, plugins and settings of each test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc

from runcrate_iac.engine import launchers
from runcrate_iac.engine.install import Engine, install
from runcrate_iac.engine.standin.values import from_wire, to_wire
from tests.engine.lab import Lab


@pytest.fixture(scope="session")
def pulumi_engine() -> Engine:
    """The engine that users get: found, or made the first time."""
    return install(lambda message, _node: print(message))


@pytest.fixture
def lab(tmp_path: Path, pulumi_engine: Engine) -> Lab:  # noqa: ARG001 - the engine has to be there
    """An empty lab."""
    return Lab.made(tmp_path)


@pytest.fixture
def pulumi_env(pulumi_engine: Engine, tmp_path: Path) -> dict[str, str]:
    """Variables for a process that uses Pulumi with a state and a home of the test's own."""
    state = tmp_path / "pulumi-state"
    state.mkdir()
    return {
        **os.environ,
        **pulumi_engine.env(),
        "PULUMI_BACKEND_URL": state.as_uri(),
        "PULUMI_HOME": str(tmp_path / "pulumi-home"),
        "PULUMI_CONFIG_PASSPHRASE": "correct horse",
        "NO_COLOR": "1",
    }


@pytest.fixture
def standin_env(pulumi_engine: Engine, pulumi_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The same, with both stand-ins in front even where the real plugins are there."""
    if {launchers.LANGUAGE, launchers.COMMAND} <= set(pulumi_engine.standins):
        return pulumi_env
    folder = tmp_path / "standins"
    folder.mkdir()
    launchers.write(folder, (launchers.LANGUAGE, launchers.COMMAND))
    executor = shutil.which(launchers.EXECUTOR, path=pulumi_engine.env()["PATH"])
    assert executor
    (folder / launchers.EXECUTOR).symlink_to(executor)
    return pulumi_env | {"PATH": os.pathsep.join([str(folder), pulumi_env["PATH"]])}


class Cli:
    """The ``pulumi`` command in one project folder; its methods are called as its verbs are typed."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        """``folder`` is made if it is missing."""
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.env = env

    def write(self, program: str, project: str = "name: tried\nruntime: python\n") -> None:
        """Put a program and a project file into the folder."""
        (self.folder / "Pulumi.yaml").write_text(project)
        (self.folder / "__main__.py").write_text(program)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The command, running, with both outputs in one pipe."""
        return subprocess.Popen(
            ["pulumi", "--non-interactive", *arguments],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        """What the command printed, once it has ended as expected."""
        process = self.start(*arguments)
        printed, _ = process.communicate(timeout=120)
        assert bool(process.returncode) == fails, printed
        return printed

    def up(self, *arguments: str, fails: bool = False) -> str:
        """What ``pulumi up`` printed."""
        return self("up", "--yes", "--skip-preview", *arguments, fails=fails)


@pytest.fixture
def cli(standin_env: dict[str, str], tmp_path: Path) -> Cli:
    """The ``pulumi`` command with both stand-ins, in an empty project folder."""
    return Cli(tmp_path / "project", standin_env)


_AS_LARGE_AS_PULUMIS = [("grpc.max_receive_message_length", -1), ("grpc.absolute_max_metadata_size", 16 << 20)]


class _Log(engine_pb2_grpc.EngineServicer):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def Log(self, request: Any, context: Any) -> empty_pb2.Empty:  # noqa: ARG002, N802
        self.seen.append(request)
        return empty_pb2.Empty()


class Resource(NamedTuple):
    """A resource as the engine would keep it."""

    id: str
    inputs: dict[str, Any]
    state: dict[str, Any]


class Plugin:
    """A command plugin's process and the engine's side of its protocol."""

    urn = "urn:pulumi:dev::tried::command:local:Command::step"

    def __init__(self, channel: grpc.Channel, log: _Log, process: subprocess.Popen[str], folder: Path) -> None:
        """Connected, not configured; it works in ``folder``."""
        self.stub = provider_pb2_grpc.ResourceProviderStub(channel)
        self.process = process
        self.folder = folder
        self._log = log

    def forget(self) -> None:
        """Empty the log."""
        self._log.seen.clear()

    @property
    def lines(self) -> list[str]:
        """The live lines so far."""
        return [entry.message for entry in self._log.seen if entry.ephemeral and entry.urn == self.urn]

    @property
    def messages(self) -> list[str]:
        """The lasting messages so far."""
        return [entry.message for entry in self._log.seen if not entry.ephemeral]

    def check(self, **inputs: Any) -> Any:
        """The answer to a check of these inputs."""
        return self.stub.Check(provider_pb2.CheckRequest(urn=self.urn, news=to_wire(inputs)))

    def create(self, *, preview: bool = False, **inputs: Any) -> Resource:
        """The resource after its create."""
        request = provider_pb2.CreateRequest(urn=self.urn, properties=to_wire(inputs), preview=preview)
        answer = self.stub.Create(request)
        return Resource(answer.id, inputs, from_wire(answer.properties))

    def diff(self, resource: Resource, **inputs: Any) -> Any:
        """The answer to a comparison with these new inputs."""
        return self.stub.Diff(
            provider_pb2.DiffRequest(
                id=resource.id,
                urn=self.urn,
                olds=to_wire(resource.state),
                old_inputs=to_wire(resource.inputs),
                news=to_wire(inputs),
            )
        )

    def update(self, resource: Resource, *, preview: bool = False, **inputs: Any) -> Resource:
        """The resource after its update."""
        request = provider_pb2.UpdateRequest(
            id=resource.id, urn=self.urn, olds=to_wire(resource.state), news=to_wire(inputs), preview=preview
        )
        return Resource(resource.id, inputs, from_wire(self.stub.Update(request).properties))

    def delete(self, resource: Resource) -> None:
        """Delete it."""
        self.stub.Delete(provider_pb2.DeleteRequest(id=resource.id, urn=self.urn, properties=to_wire(resource.state)))


@contextmanager
def _started(folder: Path) -> Iterator[Plugin]:
    """The command stand-in, started as the engine starts it, in an empty working folder."""
    launchers.write(folder, (launchers.COMMAND,))
    work = folder / "work"
    work.mkdir()
    log = _Log()
    server = grpc.server(ThreadPoolExecutor(4))
    engine_pb2_grpc.add_EngineServicer_to_server(log, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    process = subprocess.Popen(
        [folder / launchers.COMMAND, address],
        cwd=work,
        env=os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    port = process.stdout.readline().strip()
    with process, grpc.insecure_channel(f"127.0.0.1:{port}", options=_AS_LARGE_AS_PULUMIS) as channel:
        plugin = Plugin(channel, log, process, work)
        plugin.stub.Configure(provider_pb2.ConfigureRequest(acceptSecrets=True))
        yield plugin
        process.terminate()
        process.wait(10)
    server.stop(0)


@pytest.fixture(scope="module")
def shared_plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    """One process of the command stand-in for a module's tests."""
    with _started(tmp_path_factory.mktemp("plugin")) as plugin:
        yield plugin


@pytest.fixture
def plugin(shared_plugin: Plugin) -> Plugin:
    """The command stand-in, with nothing in its log."""
    shared_plugin.forget()
    return shared_plugin


@pytest.fixture
def own_plugin(tmp_path: Path) -> Iterator[Plugin]:
    """The command stand-in in a process of the test's own, to be ended or to be counted."""
    with _started(tmp_path) as plugin:
        yield plugin


@pytest.fixture
def soon() -> Iterator[ThreadPoolExecutor]:
    """Threads for calls that are not over at once."""
    with ThreadPoolExecutor(32) as pool:
        yield pool
