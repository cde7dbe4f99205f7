"""Random lives of a cluster: what goes wrong with its provider, and what its user does meanwhile."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from runcrate_iac.model.faults import KINDS, Call

JOIN_TIMEOUT = 300
LISTING_DELAYS = st.sampled_from((0.0, 5.0, 20.0))
LINGERS = st.sampled_from((0.0, 3.0, 15.0))


class Life(BaseModel):
    """One cluster's life."""

    nodes: int
    faults: list[dict[str, Any]]
    boot: float
    listing_delay: float
    lingers: float
    named: bool
    """A node's machine has its mark as its id, as on this computer; else an id of its own."""
    killed_after: float | None
    """Seconds after which the first `up` dies."""
    again: bool
    """`up` runs a second time where there is something to go on with."""
    joins: bool
    """The cluster has its common moment when all machines are up."""


def seconds(most: float) -> st.SearchStrategy[float]:
    """Half seconds up to so many."""
    return st.integers(0, int(most * 2)).map(lambda halves: halves / 2)


@st.composite
def fault(draw: st.DrawFn, nodes: int) -> dict[str, Any]:
    """One fault of a cluster of so many nodes."""
    names = st.sampled_from([f"node-{index}" for index in range(nodes)])
    kind = draw(st.sampled_from(sorted(KINDS)))
    found: dict[str, Any] = {"fault": kind, "times": draw(st.sampled_from((1, 2, 3, 4, "always")))}
    if kind in ("slow", "hang", "error", "dropped", "rate_limit", "revoked_key"):
        found["call"] = draw(st.sampled_from([call.value for call in Call]))
    if kind in ("slow", "hang", "error", "dropped", "failed"):
        found["done"] = draw(st.booleans())
    if kind in ("wrong_address", "same_address") or (found.get("call") != "list" and draw(st.booleans())):
        found["node"] = draw(names)
    match kind:
        case "slow" | "status_failed" | "not_listed":
            found["seconds"] = draw(seconds(60))
        case "error":
            found["status"] = draw(st.sampled_from((500, 503, 504)))
        case "rate_limit":
            found["retry_after"] = draw(seconds(90))
        case "same_address":
            others = [f"node-{index}" for index in range(nodes) if f"node-{index}" != found["node"]]
            found["of"] = draw(st.sampled_from(others))
    return found


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """A cluster of 2 to 8 nodes with 1 to 6 faults."""
    nodes = draw(st.integers(2, 8))
    return Life(
        nodes=nodes,
        faults=draw(st.lists(fault(nodes), min_size=1, max_size=6, unique_by=repr)),
        boot=draw(seconds(40)),
        listing_delay=draw(LISTING_DELAYS),
        lingers=draw(LINGERS),
        named=draw(st.booleans()),
        killed_after=draw(st.none() | seconds(100)),
        again=draw(st.booleans()),
        joins=draw(st.booleans()),
    )


class Act(BaseModel):
    """What the user of a cluster that is up does next, and what goes wrong meanwhile."""

    after: float
    """Seconds since the last one."""
    loses: int | None
    """The machine of this node goes before, behind everybody's back; the head is one of them."""
    adds: int
    """How many nodes more than the cluster has its spec declares now."""
    faults: list[dict[str, Any]]
    plain: bool
    """By plain Pulumi, which looks for nothing that is lost, and undoes nothing that a killed command left."""
    killed_after: float | None
    joins: bool
    """The join ends well, where the machines are up."""


class Growing(BaseModel):
    """The life of a cluster that grows, and whose machines are replaced."""

    nodes: int
    boot: float
    listing_delay: float
    lingers: float
    named: bool
    acts: list[Act]


@st.composite
def act(draw: st.DrawFn, nodes: int) -> Act:
    """One act in the life of a cluster that has begun with so many nodes."""
    adds = draw(st.sampled_from((0, 0, 1, 2, 4)))
    return Act(
        after=draw(seconds(60)),
        loses=draw(st.sampled_from((None, None, None, *range(nodes)))),
        adds=adds,
        faults=draw(st.lists(fault(nodes + adds), max_size=3, unique_by=repr)),
        plain=draw(st.booleans()),
        killed_after=draw(st.none() | seconds(100)),
        joins=draw(st.booleans()),
    )


@st.composite
def growing(draw: st.DrawFn) -> Growing:
    """A cluster that begins with 2 to 4 nodes, and 1 to 4 acts."""
    nodes = draw(st.integers(2, 4))
    return Growing(
        nodes=nodes,
        boot=draw(seconds(40)),
        listing_delay=draw(LISTING_DELAYS),
        lingers=draw(LINGERS),
        named=draw(st.booleans()),
        acts=draw(st.lists(act(nodes), min_size=1, max_size=4)),
    )
