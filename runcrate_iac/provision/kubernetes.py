"""What Kubernetes says of the nodes, and what that means: pure (C6, F22)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from runcrate_iac.model import kubernetes as rules
from runcrate_iac.model.artifacts import KUBERNETES_IMAGES, Artifact
from runcrate_iac.model.base import Model
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.network import NetworkPlan, Node
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.model.versions import KUBERNETES

KUBEADM_SECONDS = 600
"""How long kubeadm waits for a control plane or a kubelet."""
NOT_REGISTERED = "NotRegistered"
"""The reason of a node that Kubernetes does not name, or of all where it does not answer."""


class State(Model):
    """What a node has of the cluster already."""

    mtu: int
    """Of the private network's interface, in bytes."""
    done: bool
    """kubeadm got to its end here."""
    ca: str
    """The checksum of the cluster's certificate authority; empty where there is none."""
    images: dict[str, str]
    """Archives that were imported, by name: their SHA-256."""
    nodes: frozenset[str] = frozenset()
    """On the head, the nodes that Kubernetes has; none where it did not say."""


def parse(lines: Sequence[str]) -> State:
    """The state in the lines of ``kubernetes/state.sh``."""
    words = [line.split() for line in lines]
    one = {word: rest[0] for word, *rest in words if rest}
    images = {rest[0].removesuffix(".imported"): rest[1] for word, *rest in words if word == "image"}
    nodes = frozenset(rest[0] for word, *rest in words if word == "node" and rest)
    return State(mtu=int(one["mtu"]), done="done" in one, ca=one.get("ca", ""), images=images, nodes=nodes)


def secret(lines: Sequence[str]) -> dict[str, str]:
    """What a worker joins with, from the lines of ``kubernetes/token.sh.j2``."""
    one = dict(line.split() for line in lines)
    return {"token": one["token"], "ca_hash": one["hash"]}


def values(spec: ClusterSpec, plan: NetworkPlan, node: Node) -> dict[str, object]:
    """What the templates of configuration files are about."""
    return {
        "spec": spec,
        "plan": plan,
        "node": node,
        "version": KUBERNETES,
        "port": rules.PORT,
        "pods": rules.POD_NETWORK,
        "services": rules.SERVICE_NETWORK,
        "gpu": rules.GPU,
        "simulated": rules.SIMULATED,
        "gpus_simulated": node.machine.gpus_simulated,
        "pause": rules.PAUSE,
        "device_plugin": rules.DEVICE_PLUGIN,
        "gpu_runtime": rules.GPU_RUNTIME,
        "seconds": KUBEADM_SECONDS,
    }


def to_join(plan: NetworkPlan, states: Mapping[int, State]) -> list[str]:
    """The workers that are not in the cluster of the head, by what all said before the head had one."""
    head = states[0]
    return [
        node.name
        for node in plan.nodes[1:]
        if not head.done or not states[node.index].done or states[node.index].ca != head.ca
    ]


def forgotten(plan: NetworkPlan, states: Mapping[int, State]) -> list[str]:
    """The nodes that have joined and that Kubernetes has no more, since somebody deleted them; a kubelet isn't told."""
    known, away = states[0].nodes, to_join(plan, states)
    return [node.name for node in plan.nodes if known and node.name not in known and node.name not in away]


def services(*, head: bool, gpus_simulated: bool) -> dict[str, list[str]]:
    """The units of ours that run beside a node's kubelet, each with the files that it was started from."""
    gpus = ["/etc/systemd/system/runcrate-gpus.service", "/usr/local/lib/runcrate/simulated-gpus"]
    volumes = ["/etc/systemd/system/runcrate-volumes@.service", "/usr/local/lib/runcrate/volumes"]
    watched = ("claims", "released") if head else ()
    return ({"runcrate-gpus.service": gpus} if gpus_simulated else {}) | {
        f"runcrate-volumes@{what}.service": volumes for what in watched
    }


def without_plugin(node: Node, images: Iterable[Artifact]) -> Condition | None:
    """The fault of an artifact directory without NVIDIA's device plugin, where the node's GPUs are real."""
    name = rules.DEVICE_PLUGIN.rpartition("/")[2].partition(":")[0]
    if node.machine.gpus_simulated or any(name in image.source for image in images):
        return None
    return Condition(
        type="KubernetesReady",
        status=Status.FALSE,
        reason="NoDevicePlugin",
        message=f"artifacts has no image of {rules.DEVICE_PLUGIN}, without which Kubernetes counts no real GPUs",
        remedy=f"put it there as {KUBERNETES_IMAGES}/{name}.tar (docs/artifacts.md), then retry",
        node=node.name,
    )


def ready(nodes: Iterable[Node], lines: Sequence[str], gpus: int) -> list[Condition]:
    """One condition per node, from the lines of ``kubernetes/wait.sh.j2``; ``gpus`` are those declared."""
    nodes = tuple(nodes)
    names = {node.name for node in nodes}
    told = {words[0]: words[1:] for line in lines if (words := line.split(maxsplit=3))[2:] and words[0] in names}
    conditions = []
    for node in nodes:
        remedy = f"look at `journalctl -u kubelet` on {node.name}"
        if node.name not in told:
            said = f": {lines[-1]}" if lines and not told else ""
            status, reason, message = Status.FALSE, NOT_REGISTERED, f"Kubernetes has no node {node.name}{said}"
        else:
            count, state, *words = told[node.name]
            simulated = " simulated" if node.machine.gpus_simulated else ""
            if state != "True":
                status, reason, message = Status.FALSE, "NotReady", f"{node.name} is not Ready: {' '.join(words)}"
            elif count != str(gpus):
                status, reason = Status.FALSE, "WrongGpuCount"
                message = f"{count} of {gpus}{simulated} GPUs on {node.name} are allocatable"
                remedy = f"look at {_GPUS[node.machine.gpus_simulated]}"
            else:
                status, reason, remedy = Status.TRUE, "Ready", ""
                message = f"{node.name} is Ready with {gpus}{simulated} GPUs"
        conditions.append(
            Condition(
                type="KubernetesReady", status=status, reason=reason, message=message, remedy=remedy, node=node.name
            )
        )
    return conditions


_GPUS = {
    True: "/dev/simulated-gpu* and `systemctl status runcrate-gpus` there",
    False: "`nvidia-smi -L` there and the pods of DaemonSet nvidia-device-plugin in kube-system",
}


def pods(plan: NetworkPlan, lines: Sequence[str]) -> list[Condition]:
    """Per node, whether its pod ran and reached the other nodes' by service name: ``kubernetes/check.sh.j2``."""
    # A container runtime's message may have several lines.
    told = [words for line in lines if (words := line.split(maxsplit=2))[:1] in (["log"], ["pod"]) and words[1:]]
    logs: dict[str, list[str]] = defaultdict(list)
    for word, name, *rest in told:
        if word == "log":
            logs[name] += rest
    states = {name: rest[0] if rest else "Unknown" for word, name, *rest in told if word == "pod"}
    conditions = []
    for node in plan.nodes:
        said = logs[node.name]
        missing = [peer.name for peer in plan.nodes if peer != node and f"reached {peer.name}" not in said]
        state = states.get(node.name, "not made")
        reason, message, remedy = "Reached", f"a pod on {node.name} has a GPU and reaches those of all other nodes", ""
        if missing and not said and f"Insufficient {rules.GPU}" in state:
            reason, message = "GpusInUse", f"no pod was started on {node.name}, since its GPUs are in use"
        elif missing and not said:
            reason, message = "PodNotRunning", f"the pod with a GPU on {node.name} is {state}"
            remedy = f"look at `kubectl describe node {node.name}` and `journalctl -u kubelet` there"
        elif missing:
            why = next(
                (f" ({line.split(maxsplit=2)[2]})" for line in said[::-1] if line.startswith(f"missed {missing[0]} ")),
                "",
            )
            reason, message = (
                "PodNotReached",
                f"a pod on {node.name} does not reach {', '.join(missing)} by service name{why}",
            )
            remedy = "look at the pods of kube-dns and kube-proxy in kube-system"
        status = Status.FALSE if remedy else Status.TRUE
        conditions.append(
            Condition(type="PodsReach", status=status, reason=reason, message=message, remedy=remedy, node=node.name)
        )
    return conditions
