"""Kubernetes: what a spec may ask for, what the nodes are told, and what their answers mean."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from runcrate_iac import paths
from runcrate_iac.components.documents import FIELDS, relevant, spec_of
from runcrate_iac.errors import SpecError
from runcrate_iac.model import kubernetes as rules
from runcrate_iac.model.artifacts import KUBERNETES_IMAGES
from runcrate_iac.model.conditions import Status, broken
from runcrate_iac.model.network import PRIVATE_NETWORK, Machine, NetworkPlan, plan
from runcrate_iac.model.progress import Step
from runcrate_iac.model.spec import MOST_NODES, ClusterSpec, Software, parse
from runcrate_iac.model.versions import KUBERNETES
from runcrate_iac.provision import kubernetes as verdict
from runcrate_iac.render import render

JOIN: dict[str, Any] = {"token": "abcdef.0123456789abcdef", "ca_hash": "sha256:00"}
MACHINE = {"kind": "vm", "cpus": 2, "memory": "2GiB"}


def spec(**fields: Any) -> ClusterSpec:
    """A cluster with Kubernetes."""
    return parse({"name": "demo", "software": "kubernetes", "machine": MACHINE} | fields)


def network(nodes: int = 2, *, simulated: bool = True) -> NetworkPlan:
    """So many machines."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}", gpus_simulated=simulated) for i in range(nodes)])


def rendered(template: str, index: int = 0, *, simulated: bool = True, **more: Any) -> str:
    """A template of Kubernetes, of one of two nodes."""
    nodes = network(simulated=simulated)
    values = verdict.values(spec(), nodes, nodes.nodes[index])
    return render(f"kubernetes/{template}", **values, **more)


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        ({"kind": "container"}, ("kind: containers can't run `software: kubernetes`", "C17", "kind: vm")),
        ({"cpus": 1}, ("cpus: `software: kubernetes` needs at least 2 (given: 1)",)),
        ({"memory": "1GiB"}, ("memory: `software: kubernetes` needs at least 2GiB (given: 1.0GiB)",)),
    ],
)
def test_machines_that_cannot_run_it_are_refused(machine: dict[str, Any], told: tuple[str, ...]) -> None:
    """Containers, and machines that are too small, are refused in the spec, with the field and the reason (C17)."""
    with pytest.raises(SpecError) as refused:
        spec(machine=MACHINE | machine)
    assert all(words in str(refused.value) for words in ("machine: ", *told))


def test_machines_of_the_users_own_are_what_they_are() -> None:
    """The size of given machines is not the spec's to say, at any step (C17)."""
    found = spec_of(
        "demo", {"software": "kubernetes", "machines": [{"address": "192.0.2.1"}, {"address": "192.0.2.2"}]}
    )
    assert all(relevant(found, step).machine.cpus == 1 for step in FIELDS)


def test_other_software_runs_on_containers() -> None:
    """Only Kubernetes asks for a kernel of its own (C17)."""
    assert spec(software="slurm", machine={"kind": "container"}).software is Software.SLURM


def test_every_node_has_pods_of_its_own_beside_all_other_networks() -> None:
    """64 ranges of pods, none meeting another, the private network or the services (C15)."""
    ranges = [rules.pod_network(index) for index in range(MOST_NODES)]
    every = [*ranges, rules.SERVICE_NETWORK, PRIVATE_NETWORK]
    assert not any(one.overlaps(other) for one in every for other in every if one != other)
    assert len(set(ranges)) == MOST_NODES
    assert all(one.subnet_of(rules.POD_NETWORK) for one in ranges)


def test_pods_go_through_the_tunnel_of_their_node() -> None:
    """Each peer's pods are among its allowed addresses, and one route leads to all of them (C15, X4)."""
    nodes = network(3)
    values = {"plan": nodes, "node": nodes.nodes[0], "routed": rules.routed(Software.KUBERNETES, nodes.nodes)}
    keys = {node.name: "K" for node in nodes.nodes}
    text = render("network/wireguard.conf.j2", public_keys=keys, **values)
    assert "AllowedIPs = 10.77.0.2/32, 10.78.1.0/24\n" in text
    assert "AllowedIPs = 10.77.0.3/32, 10.78.2.0/24\n" in text
    mesh = render("network/mesh.sh.j2", mtu=1420, pod_network=rules.POD_NETWORK, **values)
    assert "ip route replace 10.78.0.0/16 dev $interface\n" in mesh
    subprocess.run(["sh", "-n"], input=mesh, text=True, check=True)


def test_only_with_pods_something_is_forwarded() -> None:
    """Without Kubernetes the firewall says nothing of what a machine forwards (C15)."""
    assert "forward" not in render("network/firewall.nft.j2", routed={}, plan=network(), ssh_ports=[22])


@pytest.mark.parametrize("software", [one for one in Software if one is not Software.KUBERNETES])
def test_other_software_has_no_pods(software: Software) -> None:
    """The network of every other cluster is what it was (C15)."""
    assert rules.routed(software, network().nodes) == {}


def test_the_network_depends_on_the_software() -> None:
    """The join knows the software, since pods are part of the network (C15)."""
    assert relevant(spec(), Step.JOIN).software is Software.KUBERNETES


def test_kubeadm_listens_on_the_private_network() -> None:
    """The API server, the kubelet and node ports are on 10.77.0.x, other daemons on loopback (F25)."""
    init, cluster, kubelet, proxy = yaml.safe_load_all(rendered("init.yaml.j2"))
    assert init["localAPIEndpoint"] == {"advertiseAddress": "10.77.0.1", "bindPort": 6443}
    arguments = {one["name"]: one["value"] for one in init["nodeRegistration"]["kubeletExtraArgs"]}
    assert (arguments["node-ip"], arguments["address"]) == ("10.77.0.1", "10.77.0.1")
    assert {"name": "bind-address", "value": "10.77.0.1"} in cluster["apiServer"]["extraArgs"]
    assert (cluster["kubernetesVersion"], cluster["controlPlaneEndpoint"]) == (f"v{KUBERNETES}", "node-0:6443")
    assert cluster["networking"]["serviceSubnet"] == str(rules.SERVICE_NETWORK)
    assert kubelet["cgroupDriver"] == "systemd"
    assert (proxy["mode"], proxy["clusterCIDR"]) == ("nftables", str(rules.POD_NETWORK))
    assert proxy["nodePortAddresses"] == ["10.77.0.0/24"]
    assert proxy["healthzBindAddress"].startswith("127.0.0.1:")


def test_nothing_in_the_cluster_runs_out() -> None:
    """Certificates last as long as their authority, since a cluster has no time limit and nobody renews them (C14)."""
    _, cluster, _, _ = yaml.safe_load_all(rendered("init.yaml.j2"))
    assert cluster["certificateValidityPeriod"] == "87600h"


ADMIN = "  certificate-authority-data: {authority}\ncurrent-context: kubernetes-admin@{name}\n"


@pytest.mark.parametrize(
    ("own", "stays"),
    [
        (None, False),
        (ADMIN.format(authority="OLD", name="demo"), False),
        (ADMIN.format(authority="NEW", name="demo") + "namespace: ml\n", True),
        (ADMIN.format(authority="OTHER", name="lab"), True),
    ],
)
def test_a_kubeconfig_of_the_users_own_stays(tmp_path: Path, own: str | None, *, stays: bool) -> None:
    """It is replaced only where it was made for a cluster of this name before (C22, C23)."""
    admin, mine = tmp_path / "etc/kubernetes/admin.conf", tmp_path / "home/.kube/config"
    for file in (admin, mine):
        file.parent.mkdir(parents=True)
    admin.write_text(ADMIN.format(authority="NEW", name="demo"))
    if own is not None:
        mine.write_text(own)
    me = pwd.getpwuid(os.getuid()).pw_name
    text = render("kubernetes/init.sh.j2", users=[me], spec=spec(), node=network().nodes[0]).partition(
        "give_kubeconfig()"
    )[2]
    text = f"getent() {{ echo x:x:x:x:x:{tmp_path}/home; }}\ngive_kubeconfig(){text}"
    script = f"{render('shell/lib.sh')}\n{text}".replace("/etc/", f"{tmp_path}/etc/")
    subprocess.run(["sh", "-s"], input=script, text=True, check=True)
    assert (mine.read_text() == own) is stays
    assert stays or mine.read_text() == admin.read_text()


def test_a_worker_joins_by_name_and_knows_the_head_by_its_key() -> None:
    """A worker asks the head by name, and accepts only the certificate authority whose hash it was told (X4)."""
    text = rendered("join.yaml.j2", 1, **JOIN)
    join = yaml.safe_load(text)
    discovery = join["discovery"]["bootstrapToken"]
    assert discovery["apiServerEndpoint"] == "node-0:6443"
    assert discovery["caCertHashes"] == ["sha256:00"]
    arguments = {one["name"]: one["value"] for one in join["nodeRegistration"]["kubeletExtraArgs"]}
    assert arguments["node-ip"] == "10.77.0.2"


def test_a_token_is_on_standard_input_only() -> None:
    """The join's token is in no command line and in no file of the worker (X4)."""
    configuration = rendered("join.yaml.j2", 1, **JOIN)
    script = render("kubernetes/join.sh.j2", configuration=configuration, node=network().nodes[1])
    before, _, after = script.partition("<< 'END'")
    assert JOIN["token"] not in before
    assert JOIN["token"] not in after.partition("\nEND\n")[2]


def test_kubeadms_own_token_is_short_lived() -> None:
    """The token that kubeadm makes by itself is no secret that stays in the cluster for a day (X4)."""
    init = next(yaml.safe_load_all(rendered("init.yaml.j2")))
    assert init["bootstrapTokens"] == [{"ttl": "30m"}]


@pytest.mark.parametrize("simulated", [True, False])
def test_gpus_are_labelled_as_what_they_are(*, simulated: bool) -> None:
    """Nodes with simulated GPUs have a label that says so; real ones get NVIDIA's device plugin (C3)."""
    label = f"{rules.SIMULATED}=true"
    assert (label in rendered("init.yaml.j2", simulated=simulated)) is simulated
    assert ("nvidia-device-plugin" in rendered("cluster.yaml.j2", simulated=simulated)) is not simulated
    assert ("nvidia-container-runtime" in rendered("containerd.toml.j2", simulated=simulated)) is not simulated


def test_the_default_storage_class_is_the_shared_folder() -> None:
    """Claims that name no class get a folder on /shared (C19)."""
    storage = next(yaml.safe_load_all(rendered("cluster.yaml.j2")))
    assert storage["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert f"provisioned-by: {storage['provisioner']}" in render("kubernetes/volumes.sh.j2")


def test_a_check_has_a_pod_with_a_gpu_on_each_node() -> None:
    """Each node has a pod that takes a GPU, and a service of its own (C6)."""
    nodes = network(3)
    text = render("kubernetes/check.yaml.j2", plan=nodes, namespace="check-1", gpu=rules.GPU, pause=rules.PAUSE)
    made = list(yaml.safe_load_all(text))
    pods = [one for one in made if one["kind"] == "Pod"]
    assert [pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in pods] == ["node-0", "node-1", "node-2"]
    assert all(pod["spec"]["containers"][0]["resources"] == {"limits": {rules.GPU: 1}} for pod in pods)
    services = [one["metadata"]["name"] for one in made if one["kind"] == "Service"]
    assert services == ["node-0", "node-1", "node-2"]
    program = pods[0]["spec"]["containers"][0]["args"][0]
    subprocess.run(["perl", "-c", "-e", program], check=True, capture_output=True)


@pytest.mark.parametrize("path", sorted((paths.bundled("templates") / "kubernetes").glob("*.sh")), ids=lambda p: p.name)
def test_scripts_are_scripts(path: Path) -> None:
    """Every script without values is one that a shell reads (C6)."""
    subprocess.run(["sh", "-n", path], check=True)


def test_real_gpus_need_the_device_plugins_image_in_the_artifacts() -> None:
    """An artifact directory without it is named at once, and only where GPUs are real (C9)."""
    (real, _), (simulated, _) = network(simulated=False).nodes, network().nodes
    images = rules.archives([f"{KUBERNETES_IMAGES}/{name}.tar" for name in ("pause", "k8s-device-plugin")], head=False)
    told = verdict.without_plugin(real, images[:1])
    assert told
    assert ("k8s-device-plugin:" in told.message, "k8s-device-plugin.tar" in told.remedy) == (True, True)
    assert (verdict.without_plugin(real, images), verdict.without_plugin(simulated, images[:1])) == (None, None)


STATE = """\
mtu 1420
done yes
ca 00ff
image kube-proxy.tar 0123
"""


def test_a_node_tells_what_it_has() -> None:
    """Packet size, whether kubeadm ended, the authority and the images come from the node's own lines (C6)."""
    state = verdict.parse(STATE.splitlines())
    assert (state.mtu, state.done, state.ca, state.images) == (1420, True, "00ff", {"kube-proxy.tar": "0123"})
    fresh = verdict.parse(["mtu 1420"])
    assert (fresh.done, fresh.ca, fresh.images) == (False, "", {})


@pytest.mark.parametrize(
    ("head", "worker", "joins"),
    [
        ("mtu 1;done yes;ca A", "mtu 1;done yes;ca A", []),
        ("mtu 1;done yes;ca A", "mtu 1", ["node-1"]),
        ("mtu 1;done yes;ca A", "mtu 1;done yes;ca B", ["node-1"]),
        ("mtu 1;done yes;ca A", "mtu 1;ca A", ["node-1"]),
        ("mtu 1", "mtu 1;done yes;ca A", ["node-1"]),
    ],
)
def test_who_has_to_join(head: str, worker: str, joins: list[str]) -> None:
    """New machines, half-joined ones, and those of a control plane that is gone join; others are left alone (C23)."""
    states = {0: verdict.parse(head.split(";")), 1: verdict.parse(worker.split(";"))}
    assert verdict.to_join(network(), states) == joins


@pytest.mark.parametrize(
    ("head", "worker", "again"),
    [
        ("mtu 1;done yes;ca A;node node-0;node node-1", "mtu 1;done yes;ca A", []),
        ("mtu 1;done yes;ca A;node node-0", "mtu 1;done yes;ca A", ["node-1"]),
        ("mtu 1;done yes;ca A;node node-0", "mtu 1", []),
        ("mtu 1;done yes;ca A", "mtu 1;done yes;ca A", []),
    ],
)
def test_nodes_that_somebody_deleted_register_again(head: str, worker: str, again: list[str]) -> None:
    """A node that Kubernetes has no more is told so, unless it is to join anyway or the API server is away (C9)."""
    states = {0: verdict.parse(head.split(";")), 1: verdict.parse(worker.split(";"))}
    assert verdict.forgotten(network(), states) == again


@pytest.mark.parametrize(
    ("lines", "reason", "said"),
    [
        (["node-0 8 True kubelet is posting ready status", "node-1 8 True ok"], "Ready", "is Ready with 8 simulated"),
        (["node-0 8 True ok", "node-1 7 True ok"], "WrongGpuCount", "7 of 8 simulated GPUs on node-1 are allocatable"),
        (["node-0 8 True ok", "node-1 0 False cni plugin not initialized"], "NotReady", "cni plugin not initialized"),
        (["node-0 8 True ok"], "NotRegistered", "Kubernetes has no node node-1"),
        (["The connection to the server was refused"], "NotRegistered", "connection to the server was refused"),
        ([], "NotRegistered", "has no node"),
    ],
)
def test_a_node_is_ready_with_all_its_gpus_or_named(lines: list[str], reason: str, said: str) -> None:
    """Ready, and all GPUs allocatable; else node, the kubelet's own words and a remedy (C6, F22, X5)."""
    found = verdict.ready(network().nodes, lines, 8)[1]
    assert (found.node, found.reason) == ("node-1", reason)
    assert said in found.message
    assert (found.status is Status.TRUE) is (reason == "Ready")
    assert bool(found.remedy) is (reason != "Ready")


ALL = [
    "log node-0 reached node-0",
    "log node-0 reached node-1",
    "log node-1 reached node-0",
    "log node-1 reached node-1",
]


@pytest.mark.parametrize(
    ("lines", "reason", "said"),
    [
        ([*ALL, "pod node-0 Running", "pod node-1 Running"], "Reached", "reaches those of all other nodes"),
        ([*ALL[:2], "log node-1 missed node-0 Bad hostname"], "PodNotReached", "node-0 by service name (Bad hostname)"),
        ([*ALL[:2], "pod node-1 Pending 0/2 nodes: Insufficient nvidia.com/gpu."], "GpusInUse", "are in use"),
        ([*ALL[:2], "pod node-1 Pending ImagePullBackOff no such image"], "PodNotRunning", "ImagePullBackOff"),
        ([*ALL[:2], "pod node-1 Pending CreateContainerError failed:", "timeout", "pod"], "PodNotRunning", "failed:"),
        (ALL[:2], "PodNotRunning", "not made"),
    ],
)
def test_pods_reach_each_other_or_are_named(lines: list[str], reason: str, said: str) -> None:
    """A pod that doesn't run, or misses another, is a fault with its reason; GPUs in use are none (C6, X3)."""
    found = verdict.pods(network(), lines)[1]
    assert (found.node, found.reason) == ("node-1", reason)
    assert said in found.message
    assert bool(broken([found])) is (reason in ("PodNotRunning", "PodNotReached"))
