"""What Ray is on a node: its place, its ports, and the names that everything uses for them."""

from __future__ import annotations

from runcrate_iac.model.versions import RAY

VENV = "/opt/runcrate/ray"
"""The virtual environment: the same path on all nodes."""
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
