"""Storage and Slurm on real virtual machines: what a user runs, what an admin looks at, and what faults do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testinfra.host import Host

from runcrate_iac import paths
from runcrate_iac.model.conditions import broken
from runcrate_iac.model.progress import Outcome, Step
from runcrate_iac.model.spec import parse
from tests.hosts.conftest import SPEC, Cluster, again

pytestmark = pytest.mark.hosts

NODES = (0, 1)
BOOT_SECONDS = 400.0
EXAMPLES = Path(__file__).parents[2] / "examples/slurm"
RANK = re.compile(r"^mpi (\d+) (\d+) (\d+) (node-\d+)$", re.MULTILINE)
PRIVATE = re.compile(r"^(127\.|10\.77\.0\.|\[::1\])")


@pytest.fixture(params=NODES)
def here(cluster: Cluster, request: pytest.FixtureRequest) -> Host:
    """Each node in turn."""
    return cluster.node(request.param)


@pytest.fixture
def step(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[Step], Outcome]:
    """Runs one step again, as it is."""
    monkeypatch.setenv("RUNCRATE_IAC_HOME", str(cluster.computer.home))

    def one(wanted: Step) -> Outcome:
        return again(cluster, wanted, parse(SPEC), 400)

    return one


@pytest.fixture(scope="session")
def mpi_program(cluster: Cluster) -> str:
    """An MPI program in /shared that needs no compiler; its path."""
    text = (paths.bundled("templates") / "slurm/mpi_size.py").read_text()
    cluster.ssh("node-0", f"cat > /shared/mpi_size.py << 'END'\n{text}END")
    return "python3 /shared/mpi_size.py"


@pytest.fixture
def two_jobs_a_core(cluster: Cluster) -> Iterator[None]:
    """Processors may be shared by two jobs, so that nothing but GPUs is scarce on nodes of one CPU."""
    cluster.node(0).check_output("scontrol update PartitionName=main OverSubscribe=FORCE:2")
    yield
    cluster.ssh("node-0", "scancel --me")
    cluster.node(0).check_output("scontrol update PartitionName=main OverSubscribe=NO")


def eventually(cluster: Cluster, command: str, expected: str, seconds: float) -> None:
    """Wait until the command on the head prints what is expected."""
    deadline = time.monotonic() + seconds
    while (said := cluster.ssh("node-0", command, check=False).strip()) != expected:
        assert time.monotonic() < deadline, f"{command}: {said!r} instead of {expected!r}"
        time.sleep(2)


def test_a_worker_mounts_the_heads_storage(cluster: Cluster) -> None:
    """/shared of a worker is the head's, by NFS 4.2, hard, over the private network (C19)."""
    cluster.ssh("node-1", "ls /shared")
    source, options = cluster.ssh("node-1", "findmnt -n -t nfs4 -o SOURCE,OPTIONS /shared").split()
    assert source == "10.77.0.1:/shared"
    assert {"rw", "hard", "vers=4.2"} <= set(options.split(","))


def test_storage_is_everyones_from_everywhere(cluster: Cluster) -> None:
    """What the login user writes on one node is read on the other at once, and again after it is changed (C19)."""
    for turn in ("one", "two"):
        cluster.ssh("node-1", f"echo {turn} > /shared/turn")
        assert cluster.ssh("node-0", "cat /shared/turn") == f"{turn}\n"
        cluster.ssh("node-0", f"echo {turn} back > /shared/turn")
        assert cluster.ssh("node-1", "cat /shared/turn") == f"{turn} back\n"


def test_the_hostfile_is_in_it(cluster: Cluster) -> None:
    """Every node reads the same hostfile, readable for all: its slots are the node's GPUs (C19, G15)."""
    for index in NODES:
        file = cluster.node(index).file("/shared/hostfile")
        assert (file.content_string, file.mode) == ("node-0 slots=8\nnode-1 slots=8\n", 0o644)


def test_daemons_listen_on_private_addresses_only(here: Host) -> None:
    """NFS, Slurm and its database listen on 10.77.0.x or loopback; only sshd and WireGuard elsewhere (X4, G30)."""
    ports = {22, 51820}
    listening = [line.split()[4] for line in here.check_output("ss -Hltun").splitlines()]
    outside = [one for one in listening if not PRIVATE.match(one) and int(one.rpartition(":")[2]) not in ports]
    assert [one for one in outside if not one.endswith((":68", ":546", ":5355"))] == []
    assert not here.check_output("ss -Hltn 'sport = :3306'")


def test_secrets_are_their_owners(cluster: Cluster) -> None:
    """The munge key is fresh, everywhere the same, and its owner's; so is the accounting's file (F7, G15)."""
    keys = [cluster.node(index).file("/etc/munge/munge.key") for index in NODES]
    assert {(key.mode, key.user) for key in keys} == {(0o400, "munge")}
    assert keys[0].sha256sum == keys[1].sha256sum
    assert keys[0].content_string.startswith("runcrate-iac demo ")
    database = cluster.node(0).file("/etc/slurm/slurmdbd.conf")
    assert (database.mode, database.user) == (0o600, "slurm")
    assert "StoragePass" not in database.content_string


def test_a_login_may_lock_memory(cluster: Cluster) -> None:
    """A session of the login user may lock all the memory that RDMA registers (C23)."""
    assert cluster.ssh("node-1", "ulimit -l") == "unlimited\n"


@pytest.mark.parametrize("index", NODES)
def test_srun_starts_mpi_of_the_whole_size(cluster: Cluster, mpi_program: str, index: int) -> None:
    """From either node srun makes one MPI program of one rank a node, with no flag for MPI (C23, G33)."""
    said = cluster.ssh(f"node-{index}", f"srun -N 2 --ntasks-per-node=1 {mpi_program}")
    assert sorted(RANK.findall(said)) == [("0", "2", "2", "node-0"), ("1", "2", "2", "node-1")]


@pytest.mark.parametrize("index", NODES)
def test_mpirun_starts_mpi_of_the_whole_size(cluster: Cluster, mpi_program: str, index: int) -> None:
    """From either node mpirun with the hostfile makes one MPI program over both nodes (C23, G33)."""
    said = cluster.ssh(f"node-{index}", f"mpirun --hostfile /shared/hostfile --map-by node -n 2 {mpi_program}")
    # Open MPI numbers the ranks from the node it was called on.
    here, there = f"node-{index}", f"node-{1 - index}"
    assert sorted(RANK.findall(said)) == [("0", "2", "2", here), ("1", "2", "2", there)]


def test_mpirun_inside_a_job_uses_its_nodes(cluster: Cluster, mpi_program: str) -> None:
    """In a job mpirun needs no hostfile (C23)."""
    said = cluster.ssh("node-0", f"salloc -Q -N 2 --ntasks-per-node=1 mpirun {mpi_program}")
    assert sorted(RANK.findall(said)) == [("0", "2", "2", "node-0"), ("1", "2", "2", "node-1")]


def test_a_batch_job_with_all_gpus_completes(cluster: Cluster) -> None:
    """The example job runs on both nodes with 8 simulated GPUs each and ends COMPLETED in sacct (C6)."""
    text = (EXAMPLES / "hello.sbatch").read_text()
    cluster.ssh("node-0", f"cat > /shared/hello.sbatch << 'END'\n{text}END")
    said = cluster.ssh("node-1", "cd /shared && sbatch --parsable --wait hello.sbatch")
    job = said.strip()
    output = cluster.ssh("node-0", f"cat /shared/hello-{job}.out").splitlines()
    assert sorted(output[1:]) == ["node-0: 8 simulated GPUs", "node-1: 8 simulated GPUs"]
    eventually(cluster, f"sacct -X -n -P -j {job} -o state", "COMPLETED", 60)
    assert "gres/gpu=16" in cluster.ssh("node-0", f"sacct -X -n -P -j {job} -o alloctres")


@pytest.mark.usefixtures("two_jobs_a_core")
def test_gpus_beyond_the_count_wait(cluster: Cluster) -> None:
    """While one job has all GPUs, a job for one more waits for it, and a job for none runs (C6)."""
    sbatch = "sbatch --parsable --mem=64 -o /dev/null"
    all_gpus = cluster.ssh("node-0", f"{sbatch} -N 2 --gres=gpu:8 --wrap 'srun sleep 300'").strip()
    eventually(cluster, f"squeue -h -j {all_gpus} -o %T", "RUNNING", 60)
    one_more = cluster.ssh("node-0", f"{sbatch} --gres=gpu:1 --wrap true").strip()
    none = cluster.ssh("node-0", f"{sbatch} --priority=1 --wait --wrap true || true").strip()
    eventually(cluster, f"sacct -X -n -P -j {none} -o state", "COMPLETED", 60)
    eventually(cluster, f"squeue -h -j {one_more} -o '%T %r'", "PENDING Resources", 60)
    cluster.ssh("node-0", f"scancel {all_gpus}")
    eventually(cluster, f"sacct -X -n -P -j {one_more} -o state", "COMPLETED", 90)


def test_a_job_has_only_its_gpus(cluster: Cluster) -> None:
    """Of a node's eight devices a job for three may open three: the others are forbidden, not just unlisted (C6)."""
    look = "for d in /dev/simulated-gpu*; do head -c 1 $d 2>&1 | sed 's/.*: //'; done; head -c 1 /dev/null"
    said = cluster.ssh("node-0", f'srun --gres=gpu:3 sh -c "{look.replace("$", chr(92) + "$")}"').splitlines()
    assert said == ["No such device or address"] * 3 + ["Operation not permitted"] * 5


def test_a_second_run_changes_nothing(step: Callable[[Step], Outcome]) -> None:
    """Storage and software on nodes that have them change no file and start no service over (C4)."""
    for wanted in (Step.STORAGE, Step.SOFTWARE):
        outcome = step(wanted)
        assert (outcome.ok, outcome.changed) == (True, False), outcome


def test_a_missing_gpu_is_named(cluster: Cluster, step: Callable[[Step], Outcome]) -> None:
    """A node with 7 of 8 GPUs is never well and says so; the storage step mends simulated ones (F22)."""
    cluster.node(1).check_output("rm /dev/simulated-gpu7")
    faults = broken(step(Step.CHECK).conditions)
    assert [(fault.reason, fault.message) for fault in faults] == [("WrongGpuCount", "7 of 8 simulated GPUs on node-1")]
    assert step(Step.STORAGE).ok
    assert step(Step.CHECK).ok


def test_another_munge_key_is_replaced(cluster: Cluster, step: Callable[[Step], Outcome]) -> None:
    """A node with a key of its own is named by the check and gets the head's from the software step (F7)."""
    node = cluster.node(1)
    node.check_output(
        "head -c 64 /dev/urandom > /tmp/key && chown munge: /tmp/key && chmod 400 /tmp/key"
        " && mv /tmp/key /etc/munge/munge.key && systemctl restart munge.service"
    )
    assert ("node-1", "CredentialRefused") in {(c.node, c.reason) for c in broken(step(Step.CHECK).conditions)}
    assert step(Step.SOFTWARE).ok
    assert step(Step.CHECK).ok


def test_everything_is_back_after_both_nodes_reboot(cluster: Cluster, mpi_program: str) -> None:
    """After a reboot of both nodes Slurm is idle with its GPUs, /shared mounted, nothing failed (F19, F20, G30)."""
    boots = {index: cluster.node(index).check_output("cat /proc/sys/kernel/random/boot_id") for index in NODES}
    for index in NODES:
        cluster.ssh(f"node-{index}", "sudo systemctl --no-block reboot", check=False)
    deadline = time.monotonic() + BOOT_SECONDS
    wanted = "node-0 idle gpu:h100:8\nnode-1 idle gpu:h100:8"
    for index in NODES:
        command = "cat /proc/sys/kernel/random/boot_id"
        while cluster.ssh(f"node-{index}", command, check=False).strip() in ("", boots[index]):
            assert time.monotonic() < deadline, f"node-{index} did not come back"
            time.sleep(3)
    eventually(cluster, "sinfo -h -N -o '%N %T %G'", wanted, deadline - time.monotonic())
    assert sorted(RANK.findall(cluster.ssh("node-1", f"srun -N 2 --ntasks-per-node=1 {mpi_program}"))) == [
        ("0", "2", "2", "node-0"),
        ("1", "2", "2", "node-1"),
    ]
    for index in NODES:
        node = cluster.node(index)
        assert node.check_output("systemctl --failed --no-legend") == ""
        assert node.check_output("cat /shared/hostfile") == "node-0 slots=8\nnode-1 slots=8"
