"""Which pairs of nodes are measured when, and what iperf3 and nccl-tests said: pure (C16)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from statistics import median

from runcrate_iac.errors import SpecError
from runcrate_iac.model.base import Model
from runcrate_iac.model.network import Node

MOST_ALL = 8
"""Nodes up to which all pairs are measured unless asked otherwise; the time grows with the number of nodes."""

Pair = tuple[Node, Node]
Round = tuple[Pair, ...]


class Speed(Model):
    """How much a node sends another, in Gbit/s; None where that can't be measured."""

    source: str
    target: str
    private: float | None = None
    """Over the private network, encrypted: what programs get."""
    physical: float | None = None
    """Over the network under it, to the other machine's own address."""
    reasons: tuple[str, ...] = ()
    """Why one of the two is not there."""


def named(words: str, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Those of ``nodes`` that ``words`` names, by number or by name, with commas between them: ``0, node-2``.

    Raises :class:`SpecError` where one of them is none, and where they are fewer than a pair.
    """
    known = {key: node for node in nodes for key in (str(node.index), node.name)}
    said = [word.strip() for word in words.split(",")]
    remedy = f"two or more of 0 to {len(nodes) - 1}, such as --nodes 0,1 or --nodes node-0,node-1"
    if wrong := [word for word in said if word not in known]:
        raise SpecError(f"--nodes: {', '.join(f'{word[:80]!r}' for word in wrong)}: there is no such node", remedy)
    chosen = {known[word].index for word in said}
    if len(chosen) == 1:
        raise SpecError("--nodes: that is one node, and a measurement needs two", remedy)
    return tuple(node for node in nodes if node.index in chosen)


def tournament(nodes: Sequence[Node]) -> tuple[Round, ...]:
    """Every pair once, every node in one pair per round: a round-robin tournament by the circle method.

    n - 1 rounds for an even number of nodes; n for an odd one, in which each node has one round off.
    """
    circle: list[Node | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    rounds = []
    for _ in range(len(circle) - 1):
        pairs = zip(circle[: len(circle) // 2], reversed(circle[len(circle) // 2 :]), strict=True)
        rounds.append(tuple((one, other) for one, other in pairs if one is not None and other is not None))
        # The first stays, the others move on by one place.
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return tuple(rounds)


def ring(nodes: Sequence[Node]) -> tuple[Round, ...]:
    """Each node with the next, and the last with the first, every node in one pair per round: two rounds or three."""
    pairs = list(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    if len(nodes) == 2:  # noqa: PLR2004 - the way back is the same pair
        pairs.pop()
    closing = [pairs.pop()] if len(pairs) % 2 and len(pairs) > 1 else []
    rounds = (tuple(pairs[::2]), tuple(pairs[1::2]), tuple(closing))
    return tuple(one for one in rounds if one)


def gbit_per_second(text: str) -> float:
    """What the receiver got, from the output of ``iperf3 -J``; whatever a login shell printed before it is left out.

    Raises :class:`ValueError` with what iperf3 says instead.
    """
    try:
        document = json.loads(text[text.index("{\n") :])
    except ValueError:
        lines = text.strip().splitlines()
        raise ValueError(lines[-1] if lines else "iperf3 said nothing") from None
    if "error" in document:
        raise ValueError(document["error"].removeprefix("error - "))
    try:
        return float(document["end"]["sum_received"]["bits_per_second"]) / 1e9
    except (KeyError, TypeError):
        msg = "iperf3 told no result"
        raise ValueError(msg) from None


def bus_gbit_per_second(text: str, ranks: int) -> float:
    """NCCL's bus bandwidth for the largest message, from what ``all_reduce_perf`` printed (nccl-tests, PERFORMANCE.md).

    ``ranks`` is how many GPUs must have taken part. Raises :class:`ValueError` with the reason where there is no
    such figure: programs of one rank each end well too, and measure nothing (G33).
    """
    lines = text.splitlines()
    seen = {words[2] for line in lines if (words := line.split())[:2] == ["#", "Rank"] and len(words) > 2}  # noqa: PLR2004
    rows = [words for line in lines if (words := line.split()) and words[0].isdecimal() and len(words) >= 8]  # noqa: PLR2004
    if not rows:
        raise ValueError(next((line for line in reversed(lines) if line.strip()), "all_reduce_perf said nothing"))
    if len(seen) != ranks:
        msg = f"{len(seen)} of {ranks} ranks took part: build nccl-tests with MPI=1"
        raise ValueError(msg)
    return float(max(rows, key=lambda row: int(row[0]))[7]) * 8


def figure(value: float | None) -> str:
    """A speed for people: three digits that count."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"  # noqa: PLR2004


def matrix(speeds: Iterable[Speed], nodes: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of a table: from the row's node to the column's, ``private / physical``."""
    cells = {(s.source, s.target): f"{figure(s.private)} / {figure(s.physical)}" for s in speeds}
    return ("from \\ to", *nodes), [(source, *(cells.get((source, to), "") for to in nodes)) for source in nodes]


def summary(speeds: Sequence[Speed]) -> str:
    """The slowest pair and the medians, in Gbit/s; what part of the physical network the private one gives."""
    private = [(s.private, s) for s in speeds if s.private is not None]
    if not private:
        return "nothing could be measured"
    least, slowest = min(private, key=lambda one: one[0])
    said = f"private network: median {figure(median(value for value, _ in private))} Gbit/s"
    said += f", slowest {figure(least)} from {slowest.source} to {slowest.target}"
    both = [s.private / s.physical for s in speeds if s.private is not None and s.physical]
    physical = [s.physical for s in speeds if s.physical is not None]
    if both:
        said += f"; physical network: median {figure(median(physical))} Gbit/s"
        said += f", of which the private one gives {median(both):.0%}"
    return said
