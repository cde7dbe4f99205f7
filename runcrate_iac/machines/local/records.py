"""What is written down of each machine, in its own folder, so that any later process finds it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from runcrate_iac.errors import StateDamaged
from runcrate_iac.machines.local.network import LOOPBACK, lan_address
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, MachineState, node_name
from runcrate_iac.paths import machines_dir, write_atomic

LOGIN = "runcrate"
"""The login user of our image: sudo without a password. Root takes the same keys."""


def mark(cluster_id: str, index: int) -> str:
    """The machine's id, which its process carries: ``<cluster id>.node-<index>``."""
    return f"{cluster_id}.{node_name(index)}"


def cluster_of(machine: Machine) -> str:
    """The id of the cluster whose mark the machine carries."""
    return machine.id.rpartition(f".{node_name(machine.index)}")[0]


def folder(cluster_id: str, index: int) -> Path:
    """The folder of the machine's disk, sockets, console log and record."""
    return machines_dir(cluster_id) / node_name(index)


def machine(request: Reservation, index: int, port: int) -> Machine:
    """The machine as it is known when its process starts."""
    return Machine(
        index=index,
        id=mark(request.cluster_id, index),
        host=LOOPBACK,
        port=port,
        user=LOGIN,
        identity_file=str(request.identity_file),
        endpoint=str(lan_address(index).ip),
        gpus_simulated=True,
        log=str(folder(request.cluster_id, index) / "console.log"),
    )


def save(place: Path, known: Machine) -> None:
    """Write it down."""
    write_atomic(place / "machine.json", known.model_dump_json(indent=2) + "\n")


def load(place: Path) -> Machine | None:
    """What is written down, if anything.

    Raises :class:`StateDamaged` where it can't be understood.
    """
    file = place / "machine.json"
    try:
        return Machine.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        what = f"{file} is damaged, or a newer version wrote it"
        raise StateDamaged(what, "upgrade runcrate-iac, or end that cluster: runcrate-iac down NAME") from error


def _has_disk(place: Path) -> bool:
    """Whether there is something to start again from: a virtual machine's disk, or a container's layer."""
    return any((place / name).exists() for name in ("disk.qcow2", "upper"))


def listed(cluster_id: str, running: set[str]) -> list[Machine]:
    """Every machine of the cluster that has a folder or a process, by index; ``running`` are the processes' marks."""
    found = {}
    names = {path.name for path in machines_dir(cluster_id).glob("node-*")}
    names |= {name.removeprefix(f"{cluster_id}.") for name in running}
    for name in names:
        index = int(name.removeprefix("node-"))
        known = None
        with suppress(StateDamaged):  # it is there all the same, and can be released
            known = load(folder(cluster_id, index))
        known = known or Machine(index=index, id=mark(cluster_id, index), host=LOOPBACK)
        alive = known.id in running
        if known.host_key and (alive or _has_disk(folder(cluster_id, index))):
            state = MachineState.RUNNING if alive else MachineState.STOPPED
        else:
            state = MachineState.BOOTING if alive else MachineState.FAILED
        found[index] = known.model_copy(update={"state": state})
    return [found[index] for index in sorted(found)]
