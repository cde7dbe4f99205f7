"""How far a schedule of faults has come, in a file: `up`, its steps and a later `down` are processes of their own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import get_args

from pydantic import ConfigDict, Field, ValidationError

from runcrate_iac.model.base import Model
from runcrate_iac.model.faults import ALWAYS, Call, Fault, OfMachine, call_of
from runcrate_iac.model.network import Machine, node_name
from runcrate_iac.paths import private_dir, write_atomic


class Met(Model):
    """A machine as its provider describes it, and the faults that it got when it was met first."""

    machine: Machine
    since: float
    """Seconds since the epoch."""
    faults: tuple[Fault, ...]
    deleted: bool = False


class Injected(Model):
    """What has been injected into the calls about one cluster."""

    model_config = ConfigDict(frozen=False)

    cluster_id: str = ""
    used: dict[str, int] = Field(default_factory=dict)
    """How often each fault has happened, by its JSON text."""
    met: dict[str, Met] = Field(default_factory=dict)
    """The machines, by id."""

    def take(self, fault: Fault) -> bool:
        """Whether the fault happens once more; it is counted then."""
        key, times = fault.model_dump_json(), fault.times
        if times != ALWAYS and self.used.get(key, 0) >= times:
            return False
        self.used[key] = self.used.get(key, 0) + 1
        return True


class Schedule:
    """The faults of one cluster, and what of them is still to happen."""

    def __init__(self, faults: Sequence[Fault], path: Path) -> None:
        """``path``: the file that keeps what has happened."""
        self._faults, self._path = faults, path
        self._unwritten: Injected | None = None

    def begin(self, cluster_id: str) -> None:
        """Start anew where this is another cluster of the same name."""
        with self._open() as now:
            if now.cluster_id != cluster_id:
                now.cluster_id, now.used, now.met = cluster_id, {}, {}

    def order(self, index: int) -> None:
        """A machine is made for this node: it is another one than those that were deleted, whatever its id."""
        with self._open() as now:
            now.met = {key: met for key, met in now.met.items() if not (met.deleted and met.machine.index == index)}

    def next(self, call: Call, index: int | None = None) -> Fault | None:
        """The fault of this call: the first one in the schedule that has not happened often enough."""
        node = None if index is None else node_name(index)
        with self._open() as now:
            mine = (fault for fault in self._faults if call_of(fault) is call and fault.node in (None, node))
            return next((fault for fault in mine if now.take(fault)), None)

    def meet(self, machine: Machine, at: float) -> Met:
        """What is known of this machine, which its provider described at ``at``."""
        with self._open() as now:
            met = now.met.get(machine.id)
            if met is None:
                kinds = get_args(OfMachine)
                node = node_name(machine.index)
                mine = [f for f in self._faults if isinstance(f, kinds) and f.node in (None, node) and now.take(f)]
                met = Met(machine=machine, since=at, faults=tuple(mine))
            now.met[machine.id] = met.model_copy(update={"machine": machine})
            return now.met[machine.id]

    def known(self, machine: Machine) -> Met | None:
        """What is known of this machine; None where nobody met it."""
        with self._open() as now:
            return now.met.get(machine.id)

    def deleted(self, machine: Machine) -> None:
        """The machine was deleted; it may be listed for a while."""
        with self._open() as now:
            if machine.id in now.met:
                now.met[machine.id] = now.met[machine.id].model_copy(update={"deleted": True})

    def machine_of(self, node: str) -> Machine | None:
        """The machine of that node that was met last."""
        with self._open() as now:
            found = [met.machine for met in now.met.values() if node_name(met.machine.index) == node]
            return found[-1] if found else None

    def concerns(self, cluster_id: str) -> bool:
        """Whether something of this cluster was ordered."""
        with self._open() as now:
            return now.cluster_id == cluster_id

    @contextmanager
    def _open(self) -> Iterator[Injected]:
        """What has happened, to be changed in place, for one process at a time."""
        with _locked(self._path.with_suffix(".lock")):
            now = self._read()
            before = now.model_dump_json()
            yield now
            if (after := now.model_dump_json()) != before:
                try:
                    write_atomic(self._path, after)
                    self._unwritten = None
                except OSError:  # a full disk must not keep machines alive
                    self._unwritten = now

    def _read(self) -> Injected:
        if self._unwritten:
            return self._unwritten
        try:
            return Injected.model_validate_json(self._path.read_bytes())
        except (FileNotFoundError, ValidationError):  # a rehearsal that starts anew is better than none that can end
            return Injected()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock, where there can be one."""
    with ExitStack() as stack:
        with suppress(OSError):  # a full or read-only disk must not keep machines alive
            private_dir(path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
