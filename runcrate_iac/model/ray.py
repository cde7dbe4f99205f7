"""What Ray is on a node: its place, its ports, and the names that everything uses for them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from runcrate_iac.model.artifacts import RAY_WHEELS, Artifact
from runcrate_iac.model.packages import PACKAGES
from runcrate_iac.model.versions import RAY

VENV = "/opt/runcrate/ray"
"""The virtual environment: the same path on all nodes."""
WHEELS = "/var/lib/runcrate/wheels"
"""Where wheels of the artifact directory are on a node until they are installed."""
REQUIREMENT = f"ray[default]=={RAY}"
UNIT = "runcrate-ray.service"
PORT = 6379
"""Of the global control service on the head: what ``ray.init`` and ``ray start`` connect to."""
DASHBOARD_PORT = 8265
"""Of the dashboard and the API for jobs, on the head's private address."""
SIMULATED = "simulated_gpu"
"""The resource that a node has beside ``GPU``, as often, where its GPUs are simulated."""
AGENT_PORTS = {
    "dashboard-agent-grpc": 8266,
    "dashboard-agent-listen": 8267,
    "runtime-env-agent": 8268,
    "metrics-export": 8269,
}
"""Of the agents on every node, by the name of the option of ``ray start`` without its ``-port``."""
FORWARD = f"{DASHBOARD_PORT}:node-0:{DASHBOARD_PORT}"
"""What ``ssh -L`` takes to bring the dashboard to the user's computer, where it is :data:`DASHBOARD`."""
DASHBOARD = f"http://127.0.0.1:{DASHBOARD_PORT}"


def wheels(paths: Iterable[str]) -> list[Artifact]:
    """The wheels among ``paths`` of an artifact directory, where they go."""
    found = [PurePath(path) for path in paths if PurePath(path).parent == PurePath(RAY_WHEELS)]
    return [Artifact(str(path), f"{WHEELS}/{path.name}") for path in found]


def installation(user: str, wheels: str) -> dict[str, object]:
    """What ``ray/install.sh.j2`` is about: whose environment it is, and the folder of wheels; from PyPI where empty."""
    names = {codename: one.ray for codename, one in PACKAGES.items()}
    return {"venv": VENV, "requirement": REQUIREMENT, "user": user, "wheels": wheels, "names": names}
