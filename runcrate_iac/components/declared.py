"""The names that a program has declared in this run: each belongs to one resource."""

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
