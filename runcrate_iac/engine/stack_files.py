"""The files in which Pulumi keeps a cluster's stack: whether they are whole, and how damaged ones are kept aside.

As the file backend lays them out (Pulumi 3, store version 1). What a stack knows can be made again, since every step
can be repeated on the machines that the ledger knows; so a damaged one costs nothing but the time of the steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import yaml

from runcrate_iac.errors import StateDamaged
from runcrate_iac.ledger.view import View
from runcrate_iac.paths import private_dir, state_dir, write_atomic

PROJECT = "runcrate-iac"
PROJECT_FILE = f"name: {PROJECT}\nruntime: python\n"
"""What ``Pulumi.yaml`` says. It has no ``main``, so that the steps run in the stack's own folder: Pulumi's SDK would
put the user's into it, for good, and it may be gone the next time."""
STORE_VERSION = "version: 1\n"
"""What ``meta.yaml`` says; without it Pulumi takes the store for one of an old layout."""


def root() -> Path:
    """The folder of everything that Pulumi keeps for us."""
    return state_dir() / "pulumi"


def work(name: str) -> Path:
    """The folder in which the stack's Pulumi runs; it exists from before the stack to after it."""
    return root() / "work" / name


def names() -> list[str]:
    """The name of every stack."""
    return sorted(folder.name for folder in (root() / "work").glob("*"))


def damage(name: str) -> str:
    """The first file of the stack that Pulumi could not read, and why; empty where there is none."""
    for file in _read(name):
        try:
            content = file.read_bytes()
            document = yaml.safe_load(content) if file.suffix == ".yaml" else json.loads(content)
        except FileNotFoundError:
            continue
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            return f"{file}: {' '.join(str(error).split())}"
        if not isinstance(document, dict) or (file == _checkpoint(name) and "checkpoint" not in document):
            return f"{file}: it is whole, but no state of Pulumi's"
    return ""


def refuse(view: View, what: str) -> StateDamaged:
    """The error for a cluster that lives while its stack is damaged: what is known of it, and what to do."""
    machines = ", ".join(f"{node} ({machine})" for machine, node in view.made.items() if machine not in view.gone)
    known = f"{view.name} is {view.state} since {view.since:%Y-%m-%d %H:%M} UTC; its machines: {machines or 'none'}"
    return StateDamaged(
        f"Pulumi's state of {view.name} is damaged: {what}\n{known}",
        "runcrate-iac gc keeps it aside, then the same `up` takes these machines up again; "
        f"or runcrate-iac down {view.name}",
    )


def set_aside(name: str) -> Path:
    """Move all that Pulumi keeps of the stack into a folder of its own, where it stays; the name is free then."""
    kept = private_dir(root() / f"{name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    store = root() / "state" / ".pulumi"
    for place in [
        *(store / "stacks" / PROJECT).glob(f"{name}.json*"),
        *(store / kind / PROJECT / name for kind in ("backups", "history")),
        store / "locks" / "organization" / PROJECT / name,
        work(name),  # the last one: as long as it is there, something of the stack is left
    ]:
        if place.exists():
            target = kept / place.relative_to(root())
            target.parent.mkdir(parents=True, exist_ok=True)
            place.rename(target)
    return kept


def mend_store() -> None:
    """Write the store's version again where that file is damaged: it is the same for all stacks."""
    meta = root() / "state" / ".pulumi" / "meta.yaml"
    if not meta.exists():
        return
    try:
        whole = isinstance(yaml.safe_load(meta.read_bytes()), dict)
    except (ValueError, yaml.YAMLError):
        whole = False
    if not whole:
        write_atomic(meta, STORE_VERSION)


def _checkpoint(name: str) -> Path:
    return root() / "state" / ".pulumi" / "stacks" / PROJECT / f"{name}.json"


def _read(name: str) -> Iterator[Path]:
    """The files that Pulumi reads when it opens the stack."""
    yield _checkpoint(name)
    yield _checkpoint(name).with_name(f"{name}.json.attrs")
    yield work(name) / f"Pulumi.{name}.yaml"
