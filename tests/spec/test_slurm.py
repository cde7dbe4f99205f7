"""What Slurm is told and what its answers mean, pure: configuration by release and hardware, verdicts by answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runcrate_iac import paths
from runcrate_iac.model import slurm as rules
from runcrate_iac.model.conditions import Status, broken
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.model.packages import PACKAGES
from runcrate_iac.model.slurm import Hardware
from runcrate_iac.model.spec import ClusterSpec, MachineSpec
from runcrate_iac.provision import slurm
from runcrate_iac.render import render

GOLDEN = Path(__file__).parent / "golden"
HARDWARE = """\
codename trixie
memory 966
processor 1 1 1
cgroup v2
gpu /dev/simulated-gpu0
gpu /dev/simulated-gpu1
key runcrate-iac demo abc
key c2VjcmV0
"""


def network(nodes: int = 2, *, simulated: bool = True) -> NetworkPlan:
    """So many machines."""
    return plan(
        [
            Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}", user="runcrate", gpus_simulated=simulated)
            for i in range(nodes)
        ]
    )


def hardware(codename: str = "trixie", gpus: int = 8, **fields: int) -> Hardware:
    """A big server, usually."""
    one = {"memory": 2_000_000, "cpus": 192, "cores": 96, "sockets": 2, "cgroup_v2": True} | fields
    devices = [f"/dev/nvidia{i}" for i in range(gpus)]
    return Hardware.model_validate({"codename": codename, "gpus": devices, **one})


def configuration(codename: str = "trixie", *, simulated: bool = True, gpus: int = 8, **fields: int) -> dict[str, str]:
    """The files for two such nodes, by name."""
    spec = ClusterSpec(name="demo", machine=MachineSpec(gpus=gpus))
    nodes = network(simulated=simulated)
    found = slurm.configuration(spec, nodes, {0: hardware(codename, **fields), 1: hardware(codename, **fields)})
    return {path.rpartition("/")[2]: text for path, text in found.items()}


def test_hardware_is_what_the_node_tells() -> None:
    """Release, memory, processor, GPU devices and the head's key come from the node's own lines (C6)."""
    told = rules.parse(HARDWARE.splitlines())
    assert (told.codename, told.memory, told.cpus, told.cores, told.sockets) == ("trixie", 966, 1, 1, 1)
    assert told.gpus == {"/dev/simulated-gpu0", "/dev/simulated-gpu1"}
    assert told.cgroup_v2
    assert told.key == "runcrate-iac demo abc\nc2VjcmV0"


def test_configuration_of_two_small_nodes() -> None:
    """The three files of a cluster are word for word those that were seen working (C6)."""
    files = configuration(memory=966, cpus=1, cores=1, sockets=1)
    assert {name: (GOLDEN / name).read_text() for name in files} == files


@pytest.mark.parametrize(
    ("codename", "cgroups"), [("bookworm", True), ("trixie", True), ("noble", True), ("jammy", False)]
)
def test_cgroups_where_slurm_and_the_system_agree_on_them(codename: str, cgroups: bool) -> None:
    """Processes are confined by cgroup v2, but on Ubuntu 22.04, whose Slurm knows only v1 (C6)."""
    files = configuration(codename)
    assert ("proctrack/cgroup" in files["slurm.conf"]) is cgroups
    assert ("task/cgroup" in files["slurm.conf"]) is cgroups
    assert ("ConstrainDevices=yes" in files["cgroup.conf"]) is cgroups
    assert ("jobacct_gather/cgroup" in files["slurm.conf"]) is cgroups


def test_cgroup_v2_is_not_forced_where_there_is_none() -> None:
    """Where one system has no cgroup v2 Slurm finds out itself which there is; v2 forced would end slurmd (C6)."""
    spec = ClusterSpec(name="demo")
    files = slurm.configuration(spec, network(), {0: hardware(), 1: hardware(cgroup_v2=False)})
    assert "CgroupPlugin" not in files["/etc/slurm/cgroup.conf"]
    assert "ConstrainDevices=yes\n" in files["/etc/slurm/cgroup.conf"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "CPUs=192 Sockets=2 CoresPerSocket=48 ThreadsPerCore=2"),
        ({"cpus": 3, "cores": 3, "sockets": 2}, "CPUs=3"),
        ({"cpus": 5, "cores": 4, "sockets": 1}, "CPUs=5"),
    ],
)
def test_processor(fields: dict[str, int], expected: str) -> None:
    """Sockets, cores and threads are told where they make up the CPUs, else the CPUs alone (C6)."""
    assert hardware("trixie", 8, **fields).topology == expected


@pytest.mark.parametrize(
    ("memory", "for_jobs"), [(966, 838), (4000, 3750), (2_000_000, 2_000_000 - 16 * 1024), (100, 64)]
)
def test_memory_left_to_the_system(memory: int, for_jobs: int) -> None:
    """A sixteenth of the memory is left, 128 MiB at least and 16 GiB at most; jobs never get more than there is."""
    assert hardware(memory=memory).for_jobs == for_jobs


def test_a_whole_node_by_its_cpus_gets_its_memory() -> None:
    """The default memory of a CPU times the CPUs fits into the smallest node, or whole-node jobs would never start."""
    small, big = hardware(memory=500_000, cpus=64), hardware()
    each = rules.memory_per_cpu({0: big, 1: small})
    assert 0.99 * small.for_jobs <= each * small.cpus <= small.for_jobs


@pytest.mark.parametrize(
    ("simulated", "gpus", "files"),
    [(True, 8, "/dev/simulated-gpu[0-7]"), (False, 8, "/dev/nvidia[0-7]"), (False, 1, "/dev/nvidia0")],
)
def test_gpu_devices(simulated: bool, gpus: int, files: str) -> None:
    """Real GPUs are their device files; simulated ones have a name that says so (C3)."""
    text = configuration(simulated=simulated, gpus=gpus)["gres.conf"]
    assert f"NodeName=node-1 Name=gpu Type=h100 File={files}\n" in text


def test_a_missing_gpu_is_named() -> None:
    """A node with 7 of its 8 GPU devices is a fault that says so, before slurmd fails on it (F22)."""
    node = network(simulated=False).nodes[1]
    fault = slurm.missing_gpus(node, hardware(gpus=7), 8)
    assert fault is not None
    assert (fault.reason, fault.message) == ("WrongGpuCount", "7 of 8 GPUs on node-1")
    assert slurm.missing_gpus(node, hardware(gpus=8), 8) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("node-1 idle gpu:h100:8 none", ""),
        ("node-1 mixed gpu:h100:8(S:0-1) none", ""),
        ("node-1 planned gpu:h100:8 none", ""),
        ("node-1 mixed- gpu:h100:8 none", ""),
        ("node-1 allocated- gpu:h100:8 none", ""),
        ("node-1 reserved gpu:h100:8 none", ""),
        ("node-1 maint gpu:h100:8 maintenance", ""),
        ("node-1 allocated* gpu:h100:8 none", "is allocated*"),
        ("node-1 idle~ gpu:h100:8 none", "is idle~"),
        ("node-1 idle* gpu:h100:8 none", "is idle*"),
        ("node-1 idle gpu:h100:7 none", "gpu:h100:7 instead of gpu:h100:8"),
        (
            "node-1 inval gpu:h100:0 gres/gpu count reported lower than configured (0 < 8)",
            "is inval (gres/gpu count reported lower",
        ),
        ("node-10 idle gpu:h100:8 none", "unknown"),
        (
            "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
            "Unable to contact slurm controller",
        ),
    ],
)
def test_idle_means_idle_with_its_gpus(line: str, said: str) -> None:
    """A node is ready when sinfo says idle or at work, answering, with every GPU (C6)."""
    lines = ["node-0 idle gpu:h100:8 none", line]
    faults = broken(slurm.idle(network().nodes, lines, "gpu:h100:8"))
    assert [fault.node for fault in faults] == (["node-1"] if said else [])
    assert not said or said in faults[0].message


@pytest.mark.parametrize(
    ("lines", "reason", "words"),
    [
        (["mpi 1 2 2 node-1", "mpi 0 2 2 node-0"], "WholeSize", "2 ranks on 2 nodes"),
        (["mpi 0 1 1 node-0", "mpi 0 1 1 node-1"], "WrongSize", "2 ranks of a world of 1"),
        (["mpi 0 2 2 node-0", "mpi 1 2 2 node-0"], "WrongSize", "2 ranks of a world of 2"),
        (["srun srun: error: Couldn't find the specified plugin name for mpi/pmix"], "WrongSize", "mpi/pmix"),
        ([], "WrongSize", "nothing was printed"),
        (["srun skipped: nodes are at work"], "NodesAtWork", "jobs are running"),
    ],
)
def test_mpi_is_judged_by_its_size(lines: list[str], reason: str, words: str) -> None:
    """N programs of one rank each are no MPI program, however well they end (G33)."""
    condition = slurm.mpi(network(), lines)
    assert (condition.reason, words in condition.message) == (reason, True)
    assert (condition.status is Status.TRUE) is (reason != "WrongSize")


@pytest.mark.parametrize(
    ("line", "good"),
    [("munge node-0 Success (0)", True), ("munge node-0 Invalid credential (15)", False), ("other", False)],
)
def test_credentials_of_another_key(line: str, good: bool) -> None:
    """A node that can't decode the head's credential is named (F7)."""
    condition = slurm.credentials(network().nodes[1], [line])
    assert (condition.status is Status.TRUE) is good
    assert condition.node == "node-1"


@pytest.mark.parametrize(
    ("lines", "good"), [(["sacct answered"], True), (["sacct error: refused", "sacct answered"], False)]
)
def test_accounting_answers_without_errors(lines: list[str], good: bool) -> None:
    """Accounting is well when sacct answers and complains of nothing (C6)."""
    assert (slurm.accounting(network().head, lines).status is Status.TRUE) is good


def test_everything_listens_on_private_addresses() -> None:
    """Slurm's daemons listen on the address of their node's name, the accounting too, and MariaDB on none (X4)."""
    files = configuration()
    assert "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\n" in files["slurm.conf"]
    assert "SlurmctldHost=node-0(10.77.0.1)\n" in files["slurm.conf"]
    assert "NodeName=node-1 NodeAddr=10.77.0.2 " in files["slurm.conf"]
    assert "CommunicationParameters=NoInAddrAny\n" in render("slurm/slurmdbd.conf.j2", plan=network())
    assert "skip-networking\n" in render("slurm/mariadb.cnf")
    assert "host=10.77.0.1\n" in render("storage/nfs.conf.j2", plan=network())
    assert "/shared 10.77.0.0/24(" in render("storage/exports.j2", plan=network())


def test_the_database_is_there_before_slurmdbd_asks() -> None:
    """The slurmdbd of 24.11 with MariaDB's client 3.4.10 ends when it has to make its database itself (C6)."""
    assert "CREATE DATABASE IF NOT EXISTS slurm_acct_db;\n" in render("slurm/database.sql")


@pytest.mark.parametrize("head", [True, False])
def test_services_start_after_the_tunnel_and_again(head: bool) -> None:
    """Slurm's daemons start after the private network and munge, and again for as long as it takes (G30)."""
    services = slurm.services(head=head, gpus_simulated=True)
    assert set(services) == {"munge.service", "slurmd.service"} | (
        {"slurmdbd.service", "slurmctld.service"} if head else set()
    )
    for unit, service in services.items():
        text = render("slurm/unit.conf.j2", service=service)
        assert "\nRestart=on-failure\n" in text
        assert "\nStartLimitIntervalSec=0\n" in text
        assert unit == "munge.service" or {"runcrate-mesh.service", "munge.service"} <= set(service.after)


def test_every_daemon_of_slurm_gets_its_nodes_name_first() -> None:
    """A hostname that changed since the boot is set right before a daemon that would not start with it (C2, G30)."""
    for unit, service in slurm.services(head=True, gpus_simulated=False).items():
        lines = render("slurm/unit.conf.j2", service=service).splitlines()
        before = [line for line in lines if line.startswith("ExecStartPre=")]
        wanted = [] if unit == "munge.service" else ["ExecStartPre=-+/usr/local/lib/runcrate/names"]
        assert before[:1] == wanted


def test_real_gpus_get_their_device_files_before_slurmd() -> None:
    """The driver makes /dev/nvidia* at its first use, which comes before slurmd; simulated ones have none (C6)."""
    for simulated in (True, False):
        service = slurm.services(head=False, gpus_simulated=simulated)["slurmd.service"]
        assert ("nvidia-smi" in render("slurm/unit.conf.j2", service=service)) is not simulated


def test_packages_of_every_supported_release() -> None:
    """One script serves Debian 12 and 13 and Ubuntu 22.04 and 24.04, and refuses others by name."""
    text = render("slurm/packages.sh.j2", packages={name: one.slurm_node for name, one in PACKAGES.items()})
    assert all(f"  {name}) packages slurmd " in text for name in ("bookworm", "trixie", "jammy", "noble"))
    assert "is not supported; use Debian 12 or 13, or Ubuntu 22.04 or 24.04" in text


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ("true", ""),
        ("mkdir shared", ""),
        ("mkdir shared; touch shared/data", "/shared of node-1 is not empty; move"),
        ("ln -s etc shared", "/shared of node-1 is a symbolic link; move"),
        ("mkdir -p shared etc/runcrate; touch shared/data etc/runcrate/shared", ""),
    ],
)
def test_somebodys_shared_folder_is_refused(tmp_path: Path, head: bool, before: str, refused: str) -> None:
    """A /shared with files that isn't marked as ours is named with its node and the remedy, and left alone (C19)."""
    subprocess.run(["sh", "-c", before], cwd=tmp_path, check=True)
    text = render("storage/ours.sh.j2", node=network().nodes[1], is_head=head)
    text = text.replace(" /shared", f" {tmp_path}/shared").replace("/etc/", f"{tmp_path}/etc/")
    done = subprocess.run(
        ["sh", "-s"], input=render("shell/lib.sh") + text, capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0, done.stderr.startswith(refused)) == (bool(refused), True)
    assert (tmp_path / "etc/runcrate/shared").exists() is not bool(refused)


def test_the_hostfile_is_mpis() -> None:
    """The hostfile has a line for each node, its slots are its GPUs (C19, C23)."""
    spec = ClusterSpec(name="demo", machine=MachineSpec(gpus=4))
    assert render("storage/hostfile.j2", plan=network(), spec=spec) == "node-0 slots=4\nnode-1 slots=4\n"


@pytest.mark.parametrize(("head", "simulated"), [(True, True), (False, False)])
def test_scripts_are_shell(head: bool, simulated: bool) -> None:
    """Every script that a node gets is accepted by a POSIX shell, whatever the programs and names within it."""
    nodes = network(simulated=simulated)
    values = {
        "spec": ClusterSpec(name="demo"),
        "plan": nodes,
        "node": nodes.nodes[0 if head else 1],
        "nodes": 2,
        "wanted": nodes.nodes,
        "gres": "gpu:h100:8",
        "is_head": head,
        "peers": nodes.nodes,
        "units": {unit: one.files for unit, one in slurm.services(head=head, gpus_simulated=True).items()},
        "packages": {name: one.slurm_node for name, one in PACKAGES.items()},
        "cluster_id": "demo-1",
        "credentials": {"node-1": "MUNGE:A==:"},
        "shared": head,
        "hostfile": "/shared/hostfile",
        "manifest": "kind: Pod\n",
        "pod_network": "10.78.0.0/16",
        "gpu_runtime": "/runtime",
        "shared_folder": True,
        "routed": head,
        "peer_ssh_ports": {0: 22, 1: 2222},
        "program": render("slurm/mpi_size.py"),
        "database": ["/a", "/b"],
        "path": "/memory.cnf",
        "at_work": "idle|mixed",
        "busy": "mixed",
        "gpu_device": "/dev/nvidia",
        "token": "t",
        "tries": 1,
        "seconds": 1,
        "machine_id": "",
        "count": 8,
        "power_off": "a.timer",
        "folder": "/certificates",
        "paths": ["/certificates/runcrate-1.crt"],
        "marks": ["MIIB"],
        "armed": head,
        "present": nodes,
        "next": nodes.nodes[1],
        "storage_there": head,
        "whole": head,
        "interface": nodes.interface,
        "client": nodes.nodes[1],
        "address": "10.77.0.1",
        "physical": head,
        "sudo": "sudo -n",
        "port": 20000,
        "open_seconds": 1,
        "measured": 1,
        "gpus": 8,
        "services": {"a.service": ["/a", "/b"]},
        "namespace": "check-1",
        "gpu": "nvidia.com/gpu",
        "users": ["root"],
        "limits": ":",
        "archives": {"/a.tar": "0"} if head else {},
        "configuration": "kind: JoinConfiguration",
        "version": "1.37.2",
        "workers": ["node-1"],
        "names": {name: one.ray for name, one in PACKAGES.items()},
        "user": "runcrate",
        "venv": "/opt/runcrate/ray",
        "wheels": "/wheels" if head else "",
        "requirement": "ray[default]==2.60.0",
        "unit": "runcrate-ray.service",
        "unit_file": "/etc/systemd/system/runcrate-ray.service",
        "reasons": ["/a"],
        "tmpfiles": "/etc/tmpfiles.d/a.conf",
        "python": "/opt/runcrate/ray/bin/python",
        "arguments": ["1"],
        "command": "start",
        "dashboard_port": 8265,
        "head": nodes.head,
        "agent_ports": {"a": 1},
        "simulated": "gpus_simulated",
    }
    scripts = [
        path for path in paths.bundled("templates").glob("*/*.sh*") if path.parent.name not in ("network", "setup")
    ]
    assert len(scripts) >= 10
    for path in scripts:
        text = render(f"{path.parent.name}/{path.name}", **values)
        done = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{path.name}: {done.stderr}"
