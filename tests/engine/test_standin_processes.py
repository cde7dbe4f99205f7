"""Nothing that the command stand-in started outlives a cancel, a signal or the engine."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2

pytestmark = pytest.mark.engine

# A child, and a grandchild whose parent is gone; neither listens to TERM, both stay in the command's process group.
FAMILY = """
trap '' TERM INT
( trap '' TERM INT; sleep 60 & echo $! > {folder}/grandchild; )
sleep 60 &
echo $! > {folder}/child
echo $$ > {folder}/command
wait
"""


def _eventually(holds: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _start_family(plugin: Any, soon: ThreadPoolExecutor, folder: Path) -> tuple[Any, list[psutil.Process]]:
    running = soon.submit(plugin.create, create=FAMILY.format(folder=folder))
    files = [folder / name for name in ("grandchild", "child", "command")]
    assert _eventually(lambda: all(file.exists() and file.read_text().strip() for file in files))
    return running, [psutil.Process(int(file.read_text())) for file in files]


def _gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_cancel_kills_the_whole_process_group(own_plugin: Any, soon: ThreadPoolExecutor, tmp_path: Path) -> None:
    """Children and orphaned grandchildren that ignore TERM are gone, the call fails, later ones are refused (F35)."""
    running, family = _start_family(own_plugin, soon, tmp_path)
    own_plugin.stub.Cancel(empty_pb2.Empty())
    with pytest.raises(grpc.RpcError, match="signal: killed"):
        running.result(10)
    assert _eventually(lambda: all(map(_gone, family)))
    with pytest.raises(grpc.RpcError, match="cancelled before it was started"):
        own_plugin.create(create="true")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_plugin_and_its_commands(
    own_plugin: Any, soon: ThreadPoolExecutor, tmp_path: Path, number: signal.Signals
) -> None:
    """The engine's way to close a plugin leaves quietly, with exit code 0 and no process."""
    running, family = _start_family(own_plugin, soon, tmp_path)
    own_plugin.process.send_signal(number)
    assert own_plugin.process.wait(5) == 0
    assert _eventually(lambda: all(map(_gone, family)))
    assert running.exception(10)


def test_the_end_of_the_engine_ends_the_commands(own_plugin: Any, soon: ThreadPoolExecutor, tmp_path: Path) -> None:
    """A killed engine closes the plugin's standard input, which is enough."""
    running, family = _start_family(own_plugin, soon, tmp_path)
    own_plugin.process.stdin.close()
    assert own_plugin.process.wait(5) == 0
    assert _eventually(lambda: all(map(_gone, family)))
    assert running.exception(10)
