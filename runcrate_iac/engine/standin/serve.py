"""What both stand-ins share: Pulumi's plugin protocol on the process level, and the way to the engine's log."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

_UNLIMITED: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),  # the engine is on loopback, whatever the environment's proxy says
]
_CALLS_AT_ONCE = 512  # a call lasts as long as its command, and the engine decides how many run


class EngineLog:
    """The engine's diagnostics. Losing a line must never fail a resource, so errors are swallowed."""

    def __init__(self, address: str) -> None:
        """``address`` is the engine's, as host and port."""
        self._stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address, options=_UNLIMITED))

    def info(self, message: str, urn: str = "") -> None:
        """A line that stays in the diagnostics."""
        self._send(message, urn, ephemeral=False)

    def status(self, message: str, urn: str = "") -> None:
        """A line that is shown live beside the resource and then forgotten."""
        self._send(message, urn, ephemeral=True)

    def _send(self, message: str, urn: str, *, ephemeral: bool) -> None:
        request = engine_pb2.LogRequest(severity=engine_pb2.INFO, message=message, urn=urn, ephemeral=ephemeral)
        with suppress(grpc.RpcError):
            self._stub.Log(request, timeout=10)


def serve(register: Callable[[grpc.Server], None], stop: Callable[[], None]) -> None:
    """Serve on a free loopback port, print it, and run until SIGINT, SIGTERM or the death of the engine.

    The engine holds the other end of our standard input, so its end is how a killed engine is noticed:
    without it the commands of a killed ``pulumi`` would run on.
    """
    server = grpc.server(ThreadPoolExecutor(_CALLS_AT_ONCE), options=_UNLIMITED)
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    told = _signal_pipe()
    server.start()
    print(port, flush=True)  # noqa: T201 - this line is the protocol
    _wait_for_end(told)
    stop()
    server.stop(grace=1).wait()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # calls that are still in a thread must not keep the process


def _signal_pipe() -> int:
    """A pipe that becomes readable on SIGINT or SIGTERM.

    The kernel may hand a signal to any thread, and then the main one, asleep in a lock, would not run the handler.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return readable


def _wait_for_end(told: int) -> None:
    watched = [told]
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        watched.append(0)
    while True:
        ready, _, _ = select.select(watched, [], [])
        if told in ready or not os.read(0, 4096):
            return
