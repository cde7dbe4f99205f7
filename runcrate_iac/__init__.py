"""GPU clusters as code that start whole or not at all.

The public names; each is imported when it is first used, so that a step's process, which runs pyinfra,
never loads Pulumi's gRPC beside it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runcrate_iac.components.args import ClusterArgs, Machine, MachineShape
    from runcrate_iac.components.cluster import Cluster
    from runcrate_iac.components.local_machines import LocalMachines
    from runcrate_iac.specfile import read_spec

_HOMES = {
    "Cluster": "runcrate_iac.components.cluster",
    "ClusterArgs": "runcrate_iac.components.args",
    "LocalMachines": "runcrate_iac.components.local_machines",
    "Machine": "runcrate_iac.components.args",
    "MachineShape": "runcrate_iac.components.args",
    "read_spec": "runcrate_iac.specfile",
}

__all__ = ["Cluster", "ClusterArgs", "LocalMachines", "Machine", "MachineShape", "read_spec"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
