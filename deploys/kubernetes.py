"""Kubernetes by kubeadm: control plane on the head, node addresses and pods on the private network (C6, C15, G38).

The head makes a token that lives for half an hour; it reaches the workers through this process's memory and their
standard input. Whatever takes long, a worker does at the same time as the head.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.artifacts import store
from runcrate_iac.model import kubernetes as rules
from runcrate_iac.model.artifacts import KUBERNETES_IMAGES
from runcrate_iac.model.conditions import broken
from runcrate_iac.model.packages import PACKAGES
from runcrate_iac.model.versions import KUBERNETES
from runcrate_iac.provision import kubernetes as verdict
from runcrate_iac.provision.artifacts import place
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found, waiting
from runcrate_iac.provision.remote import File, ask, converge, files, script
from runcrate_iac.provision.rounds import until_well
from runcrate_iac.render import render

PATIENCE = 300.0
"""Seconds until every node is Ready, once all have joined."""
CHECK_PATIENCE = 240.0
"""Seconds until the pods of the check have all reached all."""
_ROUND = 10
_UNITS = "/etc/systemd/system"
_state: dict[int, verdict.State] = {}
_secret: dict[str, str] = {}
"""What workers join with."""


class NotReady(Exception):
    """A node is not ready; the reasons are among the findings."""


@deploy("Kubernetes")
def kubernetes() -> None:
    """Install, make the control plane, join the workers, and wait until each node is Ready with its GPUs."""
    here = cluster()
    packages = {codename: one.kubernetes for codename, one in PACKAGES.items()}
    values = {"node": here.node, "gpu_runtime": rules.GPU_RUNTIME, "version": KUBERNETES}
    text = render("kubernetes/prepare.sh.j2", packages=packages, **values)
    text += files(*_files(here)) + render("kubernetes/runtime.sh.j2")
    converge(name="packages and container runtime", text=text)
    python.call(name="binaries, images, control plane", function=_start, here=here)
    python.call(name="token", function=_token, here=here)
    python.call(name="join", function=_join, here=here)
    python.call(name="every node ready", function=_wait, here=here)


def _files(here: Context) -> list[File]:
    """The files of a node that depend on nothing but the plan."""
    values = verdict.values(here.spec, here.plan, here.node)
    wanted = [
        File("/etc/containerd/config.toml", render("kubernetes/containerd.toml.j2", **values)),
        File("/etc/sysctl.d/99-runcrate-kubernetes.conf", "net.ipv4.ip_forward = 1\n"),
        File("/etc/modules-load.d/runcrate-kubernetes.conf", "overlay\n"),
        File(f"{_UNITS}/kubelet.service", render("kubernetes/kubelet.service")),
    ]
    if here.is_head:
        wanted += [
            File("/etc/runcrate/kubeadm.yaml", render("kubernetes/init.yaml.j2", **values)),
            *(
                File(
                    f"/etc/runcrate/kubeadm/{pod}+strategic.yaml",
                    render("kubernetes/patch.yaml.j2", container=pod, asked=rules.READINESS),
                )
                for pod in rules.CONTROL_PLANE
            ),
            File("/etc/runcrate/kubeadm/corednsdeployment+strategic.yaml", render("kubernetes/dns.yaml")),
            File("/etc/runcrate/cluster.yaml", render("kubernetes/cluster.yaml.j2", **values)),
            File("/usr/local/lib/runcrate/volumes", render("kubernetes/volumes.sh.j2"), mode="755"),
            File(f"{_UNITS}/runcrate-volumes@.service", render("kubernetes/runcrate-volumes@.service")),
        ]
    if here.node.machine.gpus_simulated:
        wanted += [
            File("/usr/local/lib/runcrate/simulated-gpus", render("kubernetes/gpus.sh.j2", **values), mode="755"),
            File(f"{_UNITS}/runcrate-gpus.service", render("kubernetes/runcrate-gpus.service")),
        ]
    return wanted


def _start(here: Context) -> None:
    state = _state[here.node.index] = verdict.parse(ask(render("kubernetes/state.sh.j2")))
    _bring(here, state)
    pods = rules.pod_network(here.node.index)
    network = render("kubernetes/cni.conflist.j2", mtu=state.mtu, pods=pods)
    text = files(File("/etc/runcrate/cni/10-runcrate.conflist", network))
    if here.is_head:
        waiting(here.node.name, "kubeadm init")
        text += render("kubernetes/init.sh.j2", users=_users(here), spec=here.spec, node=here.node)
    converge(name="control plane", text=text)


def _bring(here: Context, state: verdict.State) -> None:
    """Bring binaries and images to the node, those that it lacks."""
    if here.spec.artifacts is None:
        text = render("kubernetes/upstream.sh.j2", version=KUBERNETES, is_head=here.is_head)
        converge(name="binaries and images from upstream", text=text)
        return
    entries = store.read(Path(here.spec.artifacts)).below(KUBERNETES_IMAGES)
    images = rules.archives(entries, head=here.is_head)
    if fault := verdict.without_plugin(here.node, images):
        found(fault)
        raise NotReady
    missing = {
        one: entries[one.source].sha256
        for one in images
        if state.images.get(Path(one.source).name) != entries[one.source].sha256
    }
    place(here, [*rules.programs(head=here.is_head), *missing])
    if missing:
        waiting(here.node.name, f"importing {len(missing)} images")
    archives = {Path(one.target).name: sum_ for one, sum_ in missing.items()}
    converge(name="images", text=render("kubernetes/import.sh.j2", folder=rules.ARCHIVES, archives=archives))


def _users(here: Context) -> list[str]:
    return list(dict.fromkeys([here.node.machine.user, "root"]))


def _token(here: Context) -> None:
    if here.is_head and (workers := verdict.to_join(here.plan, _state)):
        _secret.update(verdict.secret(ask(render("kubernetes/token.sh.j2", workers=workers))))


def _join(here: Context) -> None:
    if here.node.name in verdict.to_join(here.plan, _state):
        waiting(here.node.name, "kubeadm join")
        configuration = render("kubernetes/join.yaml.j2", **verdict.values(here.spec, here.plan, here.node), **_secret)
        converge(name="join", text=render("kubernetes/join.sh.j2", configuration=configuration, node=here.node))
    elif here.node.name in verdict.forgotten(here.plan, _state):
        converge(name="register again", text="run systemctl restart kubelet.service")
    services = verdict.services(head=here.is_head, gpus_simulated=here.node.machine.gpus_simulated)
    text = render("kubernetes/services.sh.j2", services=services, is_head=here.is_head)
    converge(name="GPUs and volumes", text=text)


def _wait(here: Context) -> None:
    if not here.is_head:
        return
    nodes, gpus = here.plan.nodes, here.spec.machine.gpus
    text = _wait_text(here, _ROUND)
    faults = broken(until_well(here.node.name, lambda: verdict.ready(nodes, ask(text), gpus), PATIENCE))
    for fault in faults:
        found(fault)
    if faults:
        raise NotReady


def _wait_text(here: Context, seconds: int) -> str:
    values = {"plan": here.plan, "gpus": here.spec.machine.gpus, "gpu": rules.GPU}
    return render("kubernetes/wait.sh.j2", seconds=seconds, **values)


@deploy("Check Kubernetes")
def check() -> None:
    """Nodes as they should be, and on each a pod with a GPU that reaches the others' by service name."""
    here = cluster()
    python.call(name="nodes and pods", function=_check, here=here)


def _check(here: Context) -> None:
    if not here.is_head:
        return
    plan, gpus = here.present, here.spec.machine.gpus
    nodes = verdict.ready(here.plan.nodes, ask(_wait_text(here, 1)), gpus)
    for condition in nodes:
        found(condition)
    if all(condition.reason == verdict.NOT_REGISTERED for condition in nodes):
        return  # there is nobody to ask for pods, and to try would take minutes
    namespace = f"runcrate-check-{uuid.uuid4().hex[:8]}"
    manifest = render("kubernetes/check.yaml.j2", plan=plan, namespace=namespace, gpu=rules.GPU, pause=rules.PAUSE)
    text = render("kubernetes/check.sh.j2", namespace=namespace, nodes=len(plan.nodes), seconds=_ROUND)
    try:
        script(name="pods of the check", text=render("kubernetes/pods.sh.j2", manifest=manifest))
        conditions = until_well(here.node.name, lambda: verdict.pods(plan, ask(text)), CHECK_PATIENCE)
    finally:
        script(name="tidy up", text=render("kubernetes/pods.sh.j2", manifest=""))
    for condition in conditions:
        found(condition)
