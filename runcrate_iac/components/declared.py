"""What a program has declared: how much of it a preview knows, and its names, each of which belongs to one resource."""

from collections.abc import Awaitable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import get_root_resource

from runcrate_iac.errors import SpecError

_NAMES: WeakKeyDictionary[pulumi.Resource, set[str]] = WeakKeyDictionary()
"""By the run's root resource: one process may run several programs, or one program again."""


def refuse_twice(kind: str, name: str) -> None:
    """Raise :class:`SpecError` where this run has declared a ``kind`` of that name before.

    Both would be one cluster, which the end of either of them would end. A renamed resource is no such case: a run
    declares it under one name only.
    """
    root = get_root_resource()
    names = set[str]() if root is None else _NAMES.setdefault(root, set())
    if (one := f"{kind} {name}") in names:
        raise SpecError(f"{one} is declared twice in this program", "give each of them a name of its own")
    names.add(one)


NOT_YET = {"address": "192.0.2.1"}
"""A machine of which nothing is known yet, with an address of those for documentation (RFC 5737)."""


def known(declared: Mapping[str, Any]) -> dict[str, Any]:
    """A cluster's arguments with as much of its ``machines`` as there is before they are made.

    Without that field where not even their number is known. Pulumi runs nothing on a value that it does not know yet:
    one address of a server that is still to be made, and no argument would be looked at before it is made and billed.
    """
    fields, machines = dict(declared), declared.get("machines")
    if _is_output(machines):
        del fields["machines"]
    elif isinstance(machines, list | tuple):
        fields["machines"] = [_known_machine(machine) for machine in machines]
    return fields


def _known_machine(machine: Any) -> Any:
    if _is_output(machine):
        return NOT_YET
    if not isinstance(machine, Mapping):
        return machine
    fields = {key: value for key, value in machine.items() if not _is_output(value)}
    return NOT_YET | fields if "address" in machine else fields


def _is_output(value: Any) -> bool:
    return isinstance(value, pulumi.Output | Awaitable)
