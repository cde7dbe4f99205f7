"""What a deploy knows of its cluster: typed access to the data that every host carries."""

from __future__ import annotations

from typing import NamedTuple

from pyinfra import host

from runcrate_iac.model.network import NetworkPlan, Node
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision.membership import Membership


class Context(NamedTuple):
    """The cluster, and the node that the deploy is working on now."""

    spec: ClusterSpec
    plan: NetworkPlan
    node: Node
    present: NetworkPlan
    """The plan with those nodes only that this run is connected to; a check goes on without the others."""
    new: frozenset[int] = frozenset()
    """The nodes that are not part of the cluster yet, by index; the others are, and are in the right."""
    membership: Membership | None = None
    """The cluster as its machines know it; None where nobody has given it an id."""

    @property
    def trusted(self) -> frozenset[int]:
        """The nodes by which the others are judged, by index: those of the cluster; where it has none yet, all."""
        everyone = frozenset(node.index for node in self.plan.nodes)
        return everyone - self.new or everyone

    @property
    def is_head(self) -> bool:
        """Whether this is node 0 (C2)."""
        return self.node.index == 0


def cluster() -> Context:
    """The cluster of the current host.

    Reads host data ``runcrate_spec`` and ``runcrate_plan`` (the two models, or their documents) and ``runcrate_index``;
    an inventory for the pyinfra command line carries the same three. And ``runcrate_new`` and ``runcrate_membership``,
    where there is any.
    """
    plan = NetworkPlan.model_validate(host.data.runcrate_plan)
    spec = ClusterSpec.model_validate(host.data.runcrate_spec)
    connected = {one.name for one in host.state.activated_hosts}
    present = plan.model_copy(update={"nodes": tuple(node for node in plan.nodes if node.name in connected)})
    new = frozenset(host.data.get("runcrate_new") or ())
    return Context(spec, plan, plan.nodes[host.data.runcrate_index], present, new, host.data.get("runcrate_membership"))
