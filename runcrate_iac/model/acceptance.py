"""The acceptance suite's result as a table: a row per node, a column per property (X3): pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runcrate_iac.model.conditions import Condition, Status, broken
from runcrate_iac.model.spec import Software

COLUMNS = {
    "login": ("Checked",),
    "reaches": ("ReachesAll",),
    "packets": ("LargePacketsPass",),
    "clock": ("ClockAgrees",),
    "names": ("NamesResolve",),
    "GPUs": ("GpusPresent",),
    "hostfile": ("HostfileRight",),
    "/shared": ("SharedMounted", "SharedWorks"),
}
"""The conditions that a column is about; those of no column are the software's own."""
_OURS = frozenset(kind for kinds in COLUMNS.values() for kind in kinds)
_SIGN = {Status.TRUE: "✓", Status.FALSE: "✗", Status.UNKNOWN: "?"}
NOT_LOOKED_AT = "-"


class Acceptance(NamedTuple):
    """The table."""

    columns: tuple[str, ...]
    """``node`` first."""
    rows: tuple[tuple[str, ...], ...]


def table(nodes: Sequence[str], software: Software, conditions: Iterable[Condition], *, shared: bool) -> Acceptance:
    """What the check found on these nodes; ``shared`` says whether they share a folder (C21).

    A cell is a sign and what was measured; one that was not looked at is :data:`NOT_LOOKED_AT`.
    """
    found = list(conditions)
    columns = [column for column in COLUMNS if shared or column != "/shared"]
    titles = ["node", *columns, *([] if software is Software.NONE else [str(software)])]

    def row(node: str) -> tuple[str, ...]:
        mine = [one for one in found if one.node == node]
        cells = [_cell([one for one in mine if one.type in COLUMNS[column]]) for column in columns]
        # That a login was possible is no finding: what else was found there shows it.
        if cells[0] == NOT_LOOKED_AT and mine:
            cells[0] = _SIGN[Status.TRUE]
        if software is not Software.NONE:
            cells.append(_cell([one for one in mine if one.type not in _OURS]))
        return (node, *cells)

    return Acceptance(tuple(titles), tuple(row(node) for node in nodes))


def _cell(conditions: Sequence[Condition]) -> str:
    if not conditions:
        return NOT_LOOKED_AT
    worst = next(iter(broken(conditions)), conditions[0])
    return f"{_SIGN[worst.status]} {worst.measured}".rstrip()
