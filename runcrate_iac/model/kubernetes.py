"""Kubernetes' networks beside the private one: a pure function of the nodes' numbers (C6, C15)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network
from pathlib import PurePath

from runcrate_iac.model.artifacts import KUBERNETES_BIN, KUBERNETES_IMAGES, Artifact
from runcrate_iac.model.network import PRIVATE_NETWORK, Node
from runcrate_iac.model.spec import Software

POD_NETWORK = IPv4Network("10.78.0.0/16")
SERVICE_NETWORK = IPv4Network("10.79.0.0/16")
PORT = 6443
"""Where the API server listens, on the head's private address."""
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The static pods of the head."""
READINESS = ("etcd", "kube-apiserver", "kube-scheduler")
"""Those of them that kubeadm gives a readiness probe."""
ARCHIVES = "/var/lib/runcrate/images"
"""Where archives of images are on a node until they are imported, and the marks of those that were."""
PAUSE = "registry.k8s.io/pause:3.10.2"
"""The image of pods' sandboxes, which this release of kubeadm wants."""
DEVICE_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"
GPU_RUNTIME = "/usr/bin/nvidia-container-runtime"
"""What puts real GPUs into containers, of NVIDIA's package nvidia-container-toolkit."""
GPU = "nvidia.com/gpu"
"""The extended resource that NVIDIA's device plugin registers; simulated GPUs bear the same name."""
SIMULATED = "runcrate.dev/gpus-simulated"
"""The label of nodes whose GPUs are simulated."""


def pod_network(index: int) -> IPv4Network:
    """The addresses of a node's pods, a /24 each: 10.78.0.0/24 for node 0, 10.78.1.0/24 for node 1."""
    return IPv4Network((int(POD_NETWORK.network_address) + (index << 8), 24))


def networks(software: Software) -> tuple[IPv4Network, ...]:
    """The networks that a cluster has for itself."""
    pods_and_services = (POD_NETWORK, SERVICE_NETWORK) if software is Software.KUBERNETES else ()
    return (PRIVATE_NETWORK, *pods_and_services)


def routed(software: Software, nodes: Sequence[Node]) -> dict[str, str]:
    """What of each node, by name, is reached through its tunnel besides its own address: its pods, if it has any."""
    return {node.name: str(pod_network(node.index)) for node in nodes} if software is Software.KUBERNETES else {}


def programs(*, head: bool) -> list[Artifact]:
    """The programs of a node, where they go."""
    names = ("kubeadm", "kubelet", *(["kubectl"] if head else []))
    return [Artifact(f"{KUBERNETES_BIN}/{name}", f"/usr/local/bin/{name}", "755") for name in names]


def archives(paths: Iterable[str], *, head: bool) -> list[Artifact]:
    """The archives of images among ``paths`` that a node needs: a worker all but the control plane's."""
    names = [PurePath(path).name for path in paths if PurePath(path).parent == PurePath(KUBERNETES_IMAGES)]
    wanted = [name for name in names if head or not name.startswith((*CONTROL_PLANE, "kube-control-plane"))]
    return [Artifact(f"{KUBERNETES_IMAGES}/{name}", f"{ARCHIVES}/{name}") for name in wanted]
