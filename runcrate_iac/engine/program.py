"""The inline Pulumi program of a cluster that is declared by a spec file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from runcrate_iac.engine.stack_files import PROJECT
from runcrate_iac.model.spec import ClusterSpec

if TYPE_CHECKING:
    from runcrate_iac.components.args import ClusterArgs


def program(spec: ClusterSpec) -> Callable[[], None]:
    """The program that declares this cluster."""

    def declare() -> None:
        from runcrate_iac.components.cluster import Cluster  # noqa: PLC0415 - Pulumi loads when it runs

        Cluster(spec.name, cast("ClusterArgs", spec.model_dump(mode="json", exclude={"name"})))

    return declare


def owner(name: str) -> str:
    """The Pulumi stack of the command line's cluster of that name, as the ledger calls it."""
    return f"organization/{PROJECT}/{name}"
