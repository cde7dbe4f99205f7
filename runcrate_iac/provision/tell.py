"""What pyinfra says, in two forms: progress events for people, and each node's last words for its condition."""

from __future__ import annotations

import logging
import re
import sys
from collections import defaultdict, deque

from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, State

from runcrate_iac.model.progress import Mark
from runcrate_iac.provision.emit import Emitter
from runcrate_iac.provision.remote import MARKER
from runcrate_iac.provision.waits import OTHERS, Waits

_LAST = 4
"""Lines of a node's errors that go into its condition; the log has all."""


_NO_NEWS = ("Error: executed", "Error: could not load fact", "Error in nested operation")
"""How pyinfra ends a failure whose reason it has logged before."""


class Tell(BaseStateCallback):
    """Tells as events what each node begins, and keeps what it waits for."""

    def __init__(self, emitter: Emitter, waits: Waits) -> None:
        """Events go to ``emitter``."""
        self._emitter, self._waits = emitter, waits
        self.doing: dict[str, str] = {}
        """Per node, the operation it does now or did last."""

    def host_connect(self, state: State, host: Host) -> None:  # type: ignore[override] # noqa: ARG002
        """Tell that a node is connected."""
        self._waits.set(host.name, OTHERS)
        self._emitter.event(Mark.PROGRESS, "connected", host.name)

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        """Tell that a node begins an operation."""
        name = ", ".join(sorted(state.get_op_meta(op_hash).names))
        self.doing[host.name] = name
        if self._waits.set(host.name, name):
            self._emitter.event(Mark.PROGRESS, name, host.name)

    def operation_host_success(self, state: State, host: Host, op_hash: str, retry_count: int = 0) -> None:  # type: ignore[override] # noqa: ARG002
        """Note that a node has only the others to wait for."""
        self._waits.set(host.name, OTHERS)


class LastWords(logging.Handler):
    """The last errors that pyinfra logged of each node, as its log is the one place where all kinds of them meet."""

    _OF_NODE = re.compile(r"\[(?P<node>[^]]+)\]\s*(?:nested)?\s*(?P<line>.*)", re.DOTALL)

    def __init__(self) -> None:
        """Warnings and errors only."""
        super().__init__(logging.WARNING)
        self._lines: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_LAST))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record where it is about a node."""
        if match := self._OF_NODE.match(record.getMessage()):
            line = match["line"].strip()
            if line.endswith(MARKER):
                self._lines[match["node"]].clear()
            elif line and not line.startswith(_NO_NEWS):
                self._lines[match["node"]].append(line)

    def of(self, node: str) -> str:
        """Its last errors on one line."""
        return " / ".join(self._lines[node])


def listen() -> LastWords:
    """Send pyinfra's log to standard error, which is the step's log file, and keep every node's last words."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    words = LastWords()
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    pyinfra = logging.getLogger("pyinfra")
    pyinfra.setLevel(logging.INFO)
    pyinfra.addHandler(words)
    # A machine that is not there yet is no news, and paramiko would print a traceback for every try.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    return words
