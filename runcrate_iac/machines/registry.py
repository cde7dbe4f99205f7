"""Providers by name: ours, and those of installed packages. Each is imported only when it is asked for.

A package adds one with an entry point in the group ``runcrate_iac.providers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points

from runcrate_iac.errors import SpecError
from runcrate_iac.machines.faulty import Faulty
from runcrate_iac.machines.given import GivenProvider
from runcrate_iac.machines.provider import Provider
from runcrate_iac.model.network import Machine
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.paths import cluster_dir

GROUP = "runcrate_iac.providers"
FAULTS = "faults.json"
"""A file in a cluster's folder: what of its spec's faults has happened."""
OURS = {
    "given": ("runcrate_iac.machines.given", "GivenProvider"),
    "local": ("runcrate_iac.machines.local", "LocalProvider"),
}


def provider_of(spec: ClusterSpec, given: Sequence[Machine] = ()) -> Provider:
    """The provider of the machines that this spec declares, with its faults; ``given``: those of the user's program."""
    inner = GivenProvider(given) if given else provider(spec.provider)
    return Faulty(inner, spec.faults, cluster_dir(spec.name) / FAULTS) if spec.faults else inner


def names() -> list[str]:
    """The names of all providers."""
    return sorted({*OURS, *(point.name for point in entry_points(group=GROUP))})


def provider(name: str) -> Provider:
    """The provider of that name.

    Raises :class:`SpecError` with the names there are.
    """
    if name in OURS:
        module, attribute = OURS[name]
        made: Provider = getattr(import_module(module), attribute)()
        return made
    others = {point.name: point for point in entry_points(group=GROUP)}
    if name not in others:
        raise SpecError(f"provider: there is none called {name!r}", "one of " + ", ".join(names()))
    theirs: Provider = others[name].load()()
    return theirs
