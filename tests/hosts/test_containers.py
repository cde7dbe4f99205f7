"""Real container machines on this computer: a cluster with Slurm, and machines that power off."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from runcrate_iac.errors import StepFailed
from runcrate_iac.machines.keypair import cluster_key
from runcrate_iac.machines.local import LocalProvider
from runcrate_iac.machines.local.cache import USERS
from runcrate_iac.machines.local.container import machine, network, tree
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import Machine, MachineState, plan
from runcrate_iac.model.spec import Kind, MachineSpec
from runcrate_iac.paths import cache_dir, machines_dir
from runcrate_iac.render import render
from tests.hosts.conftest import Cluster, Computer
from tests.machines import listed, release, reserve, until
from tests.spec.test_authority import made

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(os.geteuid() != 0, reason="containers need root")]
CONTAINER = MachineSpec(kind=Kind.CONTAINER)


def quiet(message: str, node: str | None) -> None:
    """No news."""


def traces(cluster_id: str, *links: str) -> list[str]:
    """Every process, namespace, link, mount and cgroup on this computer that bears a cluster's id."""
    lines = {path.parent.name: read(path).replace("\0", " ") for path in Path("/proc").glob("[0-9]*/cmdline")}
    processes = [f"process {pid}: {line}" for pid, line in lines.items() if cluster_id in line]
    mounts = [line for line in read(Path("/proc/self/mounts")).splitlines() if cluster_id in line]
    cgroups = [str(path) for path in Path("/sys/fs/cgroup").rglob(f"runcrate-{cluster_id}*")]
    namespaces = [str(path) for path in Path("/run/netns").glob(f"runcrate-{cluster_id}*")]
    left = [link for link in links if Path("/sys/class/net", link).exists()]
    return processes + mounts + cgroups + namespaces + left


def read(path: Path) -> str:
    """The text of a file; nothing where its process has just ended."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def box(any_computer: Computer) -> Cluster:
    """Two container machines with Slurm, ready; they trust an authority of the test's."""
    shape = {"kind": "container", "gpu": "H100", "gpus": 8}
    authority = made(any_computer.home, "site")
    spec = any_computer.spec(name="box", machine=shape, ca_certificates=[authority])
    done = any_computer.run("up", spec, "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    machines = [Machine.model_validate(one) for one in any_computer.status("box")["machines"]]
    return Cluster("box", any_computer, plan(machines), done.stdout + done.stderr)


@pytest.fixture
def request_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reservation]:
    """A reservation of a single container, whose lease ends soon; it is released afterwards."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(tmp_path))
    key = cluster_key("one")
    keys = (key.with_suffix(".pub").read_text().strip(),)
    request = Reservation(
        cluster_id=f"one-{uuid4().hex}",
        nodes=1,
        machine=CONTAINER,
        authorized_keys=keys,
        identity_file=key,
        deadline=time.time() + 12,
    )
    yield request
    release(LocalProvider(), request.cluster_id, quiet)
    assert traces(request.cluster_id) == []


def test_containers_reach_one_another_by_name(box: Cluster) -> None:
    """Each node logs in to the other by name, over addresses of 10.77.0.0/24 (C2, C15)."""
    for index, other in ((0, 1), (1, 0)):
        said = box.ssh(f"node-{index}", f"ssh node-{other} hostname; getent hosts node-{other}").split()
        assert said == [f"node-{other}", f"10.77.0.{other + 1}", f"node-{other}"]


def test_containers_are_machines_of_their_own(box: Cluster) -> None:
    """No two nodes have the same machine-id, host key or WireGuard key, and nothing failed on any (F2, X4)."""
    for command in (
        "cat /etc/machine-id",
        "cat /etc/ssh/ssh_host_ed25519_key.pub",
        "sudo wg show wg-runcrate public-key",
    ):
        assert box.ssh("node-0", command) != box.ssh("node-1", command)
    assert [box.ssh(f"node-{index}", "systemctl is-system-running") for index in (0, 1)] == ["running\n"] * 2


def test_containers_trust_the_authority_of_the_spec(box: Cluster) -> None:
    """What reads the system's certificates on a node finds the one that `ca_certificates` names."""
    program = (
        "import ssl; print([c for c in ssl.create_default_context().get_ca_certs() if 'site' in str(c['subject'])])"
    )
    for node in ("node-0", "node-1"):
        assert "'site'" in box.ssh(node, f'python3 -c "{program}"')


def test_slurm_gives_simulated_gpus_of_both_containers(box: Cluster) -> None:
    """A job over both nodes gets the simulated GPUs it asks for on each, and no others (C6)."""
    said = box.ssh("node-1", "srun -N 2 --gres=gpu:h100:3 sh -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES'")
    assert sorted(said.splitlines()) == ["node-0 0,1,2", "node-1 0,1,2"]
    assert box.ssh("node-0", "test -c /dev/simulated-gpu7 && sinfo -h -o %G") == "gpu:h100:8\n"


def test_containers_share_no_folder(box: Cluster) -> None:
    """No node has /shared; each has the hostfile on its own disk, and MPI runs by it (C21, C23)."""
    program = render("slurm/mpi_size.py")
    for node in ("node-0", "node-1"):
        assert box.ssh(node, "ls -d /shared 2> /dev/null", check=False) == ""
        assert box.ssh(node, "cat /etc/runcrate/hostfile") == "node-0 slots=8\nnode-1 slots=8\n"
        box.ssh(node, f"cat > /tmp/mpi_size.py << 'END'\n{program}END")
    said = box.ssh("node-0", "mpirun --hostfile /etc/runcrate/hostfile --map-by node -n 2 python3 /tmp/mpi_size.py")
    assert sorted(line.split()[1:3] for line in said.splitlines() if line.startswith("mpi ")) == [
        ["0", "2"],
        ["1", "2"],
    ]


def test_a_slurm_array_spreads_over_the_nodes(box: Cluster) -> None:
    """Every task of an array runs, with a GPU of its own node (C23)."""
    script = Path("examples/slurm/array.sbatch").read_text()
    box.ssh("node-0", f"cat > array.sbatch << 'END'\n{script}END\nsbatch --wait array.sbatch")
    said = "".join(box.ssh(node, "cat array-*.out 2> /dev/null", check=False) for node in ("node-0", "node-1"))
    assert sorted(line.split()[1] for line in said.splitlines()) == [str(task) for task in range(8)]


def test_every_session_knows_the_clusters_interface(box: Cluster) -> None:
    """gloo, NCCL and pdsh are told the private network and SSH; root may start MPI (C23)."""
    assert box.ssh("node-1", "echo $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME") == "wg-runcrate wg-runcrate\n"
    assert "NCCL_SOCKET_IFNAME=wg-runcrate" in box.ssh("node-0", "cat /etc/nccl.conf").splitlines()
    said = box.ssh("node-0", "pdsh -N -w node-[0-1] hostname | sort")
    assert said == "node-0\nnode-1\n"
    root = "mpirun --hostfile /etc/runcrate/hostfile --map-by node -n 2 hostname"
    assert sorted(box.ssh("node-0", f"sudo ssh node-1 {root}").split()) == ["node-0", "node-1"]


def test_check_shows_a_row_per_node(box: Cluster) -> None:
    """`check` finds everything well, and shows a row per node and a column per property (X3)."""
    done = box.computer.run("check", "box")
    assert done.returncode == 0, done.stdout + done.stderr
    head, *rows = [line.split("  ") for line in done.stdout.splitlines() if line.startswith(("node ", "node-"))]
    columns = [word.strip() for word in head if word.strip()]
    assert columns == ["node", "login", "reaches", "packets", "clock", "names", "GPUs", "hostfile", "slurm"]
    assert [row[0] for row in rows] == ["node-0", "node-1"]
    assert all(sum(cell.strip().startswith("✓") for cell in row) == len(columns) - 1 for row in rows), done.stdout


def test_bandwidth_measures_both_networks_and_closes_behind_itself(box: Cluster) -> None:
    """Both directions have figures of both networks, and nothing listens or is open afterwards (C16, X4)."""
    done = box.computer.run("bandwidth", "box", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [(one["source"], one["target"]) for one in told["pairs"]] == [("node-0", "node-1"), ("node-1", "node-0")]
    assert all(one["private"] > 0 and one["physical"] > 0 for one in told["pairs"]), told
    assert told["nccl_all_reduce"] == {"bus": None, "reason": "the GPUs are simulated"}
    for node in ("node-0", "node-1"):
        assert "elements" not in box.ssh(node, "sudo nft list set inet runcrate measured")
        assert box.ssh(node, "pgrep iperf3", check=False) == ""


def test_what_a_killed_measurement_opened_closes_by_itself(box: Cluster) -> None:
    """The kernel takes the opening back at its time, with nobody there to do it (X4)."""
    box.ssh("node-0", "sudo nft add element inet runcrate measured '{ 192.0.2.1 . 20000 timeout 2s }'")
    assert "192.0.2.1 . 20000" in box.ssh("node-0", "sudo nft list set inet runcrate measured")
    until(lambda: "192.0.2.1" not in box.ssh("node-0", "sudo nft list set inet runcrate measured"), "it expired", 10)


def test_a_dead_node_is_named_and_the_other_is_looked_at(box: Cluster) -> None:
    """With a machine off, `check` is degraded and says which; what the other has is shown; `up` repairs it (X3, C9)."""
    box.ssh("node-1", "sudo systemctl poweroff", check=False)
    until(lambda: box.computer.status("box")["machine_states"]["node-1"] == "stopped", "it is off")
    begun = time.monotonic()
    done = box.computer.run("check", "box", "--json")
    assert done.returncode == 4, done.stdout + done.stderr
    assert time.monotonic() - begun < 60
    found = json.loads(done.stdout)["conditions"]
    assert {one["reason"] for one in found if one["node"] == "node-1" and one["type"] == "Checked"} == {"MachineDied"}
    good = {one["type"] for one in found if one["node"] == "node-0" and one["status"] == "true"}
    assert {"LargePacketsPass", "ClockAgrees", "GpusPresent", "HostfileRight"} <= good
    shape = {"kind": "container", "gpu": "H100", "gpus": 8}
    done = box.computer.run("up", box.computer.spec(name="box", machine=shape), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_hostname_that_a_dhcp_hook_changed(box: Cluster) -> None:
    """`check` tells it, and Slurm's daemon, which would not start with it, gives the node its name again (C2, X3)."""
    box.ssh("node-1", "sudo hostname vm-1.example.internal")
    try:
        done = box.computer.run("check", "box")
        assert done.returncode == 4
        assert "hostname is vm-1.example.internal instead of node-1" in done.stdout
    finally:
        box.ssh("node-1", "sudo systemctl restart slurmd")
    assert box.ssh("node-1", "hostname") == "node-1\n"
    assert box.ssh("node-0", "srun -w node-1 hostname") == "node-1\n"
    assert box.computer.run("retry", "box").returncode == 0


def test_the_private_network_comes_back(box: Cluster) -> None:
    """After a reboot of a worker, and after the end of its WireGuard process, the other node reaches it again (F20)."""
    box.ssh("node-1", "sudo pkill wireguard-go || :; sudo systemctl reboot", check=False)
    until(lambda: "idle\n" in box.ssh("node-0", "sinfo -h -n node-1 -o %T", check=False), "the node is idle again")
    until(lambda: box.ssh("node-0", "ssh node-1 hostname", check=False) == "node-1\n", "SSH by name")
    box.ssh("node-1", "! sudo pkill wireguard-go || sleep 1")
    until(lambda: box.ssh("node-0", "ssh node-1 hostname", check=False) == "node-1\n", "SSH by name")
    assert box.ssh("node-1", "test -c /dev/simulated-gpu0 && systemctl is-system-running") == "running\n"


def test_a_node_that_boots_meets_the_others_without_the_one_whose_name_is_gone(box: Cluster) -> None:
    """An endpoint's name that means nothing is left out; once it means something again, the peer has it again (F20)."""
    path = "/etc/wireguard/wg-runcrate.conf"
    endpoint = box.ssh("node-1", f"sudo sed -n 's/^Endpoint = //p' {path}").strip()
    box.ssh("node-1", f"sudo sed -i 's/^Endpoint = .*/Endpoint = gone.invalid:51820/' {path}")
    box.ssh("node-1", "sudo systemctl restart runcrate-mesh")
    until(lambda: box.ssh("node-0", "ssh node-1 hostname", check=False) == "node-1\n", "SSH by name")
    box.ssh("node-1", f"sudo sed -i 's/^Endpoint = .*/Endpoint = {endpoint}/' {path}")
    box.ssh("node-1", "systemctl list-timers --all 'run-*' | grep -q run-")
    until(lambda: box.ssh("node-1", "systemctl list-timers --all 'run-*' | grep run- || :") == "", "it was tried again")
    assert box.ssh("node-1", "sudo wg show wg-runcrate endpoints").split()[1] == endpoint
    assert box.ssh("node-1", "systemctl is-system-running") == "running\n"


def test_a_retry_mends_only_what_is_broken(box: Cluster) -> None:
    """The check finds slurmd stopped on node-1, `retry` starts it there, and nothing else starts over (C9, X5)."""
    units = "systemctl show -P ActiveEnterTimestampMonotonic munge slurmd slurmctld runcrate-mesh"
    before = [box.ssh(node, units).split() for node in ("node-0", "node-1")]
    box.ssh("node-1", "sudo systemctl stop slurmd")
    done = box.computer.run("status", "box", "--check")
    assert (done.returncode, "node-1" in done.stdout) == (4, True)
    done = box.computer.run("retry", "box")
    assert (done.returncode, "join: started" in done.stderr) == (0, False), done.stderr
    after = [box.ssh(node, units).split() for node in ("node-0", "node-1")]
    assert after[0] == before[0]
    assert [old == new for old, new in zip(before[1], after[1], strict=True)] == [True, False, True, True]
    assert box.computer.run("retry", "box").stdout.count("nothing to do") == 1


def test_a_service_starts_over_that_a_broken_off_step_had_given_another_file(box: Cluster) -> None:
    """A step that died between slurm.conf and the restart leaves the old one in force; the next one restarts (C9)."""
    killer = """#!/bin/sh
case "$*" in *restart*slurmctld*) kill -9 $PPID; exit 1 ;; esac
exec /usr/bin/systemctl "$@"
"""
    wrapper = "/usr/local/sbin/systemctl"
    in_force = "scontrol show config | awk '$1 == \"MessageTimeout\" { print $3 }'"
    box.ssh("node-0", "echo MessageTimeout=37 | sudo tee -a /etc/slurm/slurm.conf; sudo systemctl restart slurmctld")
    until(lambda: box.ssh("node-0", in_force, check=False) == "37\n", "the controller has another configuration", 30)
    box.ssh("node-0", f"sudo sh -c 'cat > {wrapper} && chmod 755 {wrapper}' << 'END'\n{killer}END")
    box.ssh("node-1", "sudo systemctl stop slurmd")
    assert box.computer.run("status", "box", "--check").returncode == 4
    assert box.computer.run("retry", "box").returncode == 4
    assert box.ssh("node-0", f"grep -c 37 /etc/slurm/slurm.conf; {in_force}", check=False) == "0\n37\n"
    box.ssh("node-0", f"sudo rm {wrapper}")
    done = box.computer.run("retry", "box")
    assert done.returncode == 0, done.stderr
    assert box.ssh("node-0", in_force) == "30\n"


def test_the_lease_powers_a_container_off(request_of_one: Reservation) -> None:
    """A container that nobody commits powers itself off, and starts again from its disk as the same machine (X2)."""
    provider = LocalProvider()
    (made,) = reserve(provider, request_of_one, quiet)
    place = Path(made.log or "").parent
    until(lambda: listed(provider, request_of_one.cluster_id)[0].state is MachineState.STOPPED, "it is stopped")
    assert request_of_one.deadline < time.time() < request_of_one.deadline + 30
    assert "Power" in (place / "console.log").read_text(errors="replace")
    later = request_of_one.model_copy(update={"deadline": time.time() + 300})
    (again,) = reserve(provider, later, quiet)
    assert listed(provider, request_of_one.cluster_id)[0].state is MachineState.RUNNING
    told = subprocess.run(["ssh-keyscan", "-t", "ed25519", again.host], capture_output=True, text=True, check=True)
    assert told.stdout.split(maxsplit=1)[1].strip() == made.host_key


def test_a_container_keeps_what_it_stands_on(
    request_of_one: Reservation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree in the cache knows the machines that need it, and no longer than they are there (C7)."""
    root = tree.root_tree(quiet)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base = cache_dir() / "images" / tree.key()
    (base / USERS).mkdir(parents=True)
    (base / "root").symlink_to(root)
    provider, later = LocalProvider(), request_of_one.model_copy(update={"deadline": time.time() + 300})
    (made,) = reserve(provider, later, quiet)
    (link,) = (base / USERS).iterdir()
    assert link.samefile(Path(made.log or "").parent)
    release(provider, later.cluster_id, quiet)
    assert not link.exists()


def test_a_container_that_cannot_start_says_why(request_of_one: Reservation) -> None:
    """A container whose image is gone fails at once, with its node and the end of its console (X1)."""
    begun = time.monotonic()
    with pytest.raises(StepFailed) as failed:
        asyncio.run(machine.bring_up(0, request_of_one, Path("/nowhere"), quiet))
    assert time.monotonic() - begun < 5
    assert failed.value.node == "node-0"
    assert "mount: " in failed.value.message


def test_no_process_of_a_killed_container_lives_on(request_of_one: Reservation) -> None:
    """After kill -9 of its one process the container is listed as stopped and nothing of it runs (X1)."""
    provider = LocalProvider()
    later = request_of_one.model_copy(update={"deadline": time.time() + 300})
    (made,) = reserve(provider, later, quiet)
    os.kill(int((Path(made.log or "").parent / "pid").read_text()), signal.SIGKILL)
    until(lambda: not [trace for trace in traces(later.cluster_id) if trace.startswith("process")], "all are gone", 10)
    assert listed(provider, request_of_one.cluster_id)[0].state is MachineState.STOPPED


def test_a_killed_container_starts_again_though_a_connection_of_it_lives_on(request_of_one: Reservation) -> None:
    """Data that nobody took keeps the network of the killed one alive for minutes; it starts again at once (F20)."""
    provider = LocalProvider()
    later = request_of_one.model_copy(update={"deadline": time.time() + 300})
    (made,) = reserve(provider, later, quiet)
    here = str(network.SUBNETS[int((machines_dir(later.cluster_id) / "subnet").read_text())][1])
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-i", str(made.identity_file)]
    with socket.create_server((here, 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        send = f"bash -c 'cat /dev/zero > /dev/tcp/{here}/{server.getsockname()[1]}'"
        with subprocess.Popen(["ssh", *options, f"{made.user}@{made.host}", send]), server.accept()[0] as reader:
            assert reader.recv(1) == b"\0"
            os.kill(int((Path(made.log or "").parent / "pid").read_text()), signal.SIGKILL)
            until(lambda: listed(provider, later.cluster_id)[0].state is MachineState.STOPPED, "it is stopped")
            reserve(provider, later, quiet)
    assert listed(provider, later.cluster_id)[0].state is MachineState.RUNNING


def test_down_leaves_nothing_of_containers(box: Cluster) -> None:
    """After `down` there is no process, network namespace, link, mount, cgroup or file of the cluster (C7)."""
    (subnet,) = (box.computer.home / "machines").glob("box-*/subnet")
    link, cluster_id = f"runcrate{subnet.read_text().strip()}", subnet.parent.name
    assert {trace.partition(" ")[0] for trace in traces(cluster_id, link)} >= {"process", link}
    done = box.computer.run("down", "box", "--yes")
    assert done.returncode == 0, done.stderr
    assert traces(cluster_id, link) == []
    assert list((box.computer.home / "machines").iterdir()) == []
