"""Written by runcrate-iac. Ray's own command with more patience: a slow machine would start over, and never be done.

`ray start` gives its raylet 30 seconds, and the raylet 15 seconds to the one agent whose port it is not told.
"""

import sys
import time
from typing import Any

from ray._private import services
from ray.scripts import scripts

SECONDS = 600.0
OPTION = "--dashboard-agent-listen-port"
get_node = services.get_node
start_ray_process = services.start_ray_process


def get_node_in_time(gcs_address: str, node_id: str) -> object:
    """What Ray's control service knows of a node, as soon as it knows it."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            return get_node(gcs_address, node_id)
        except RuntimeError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def start_told_the_port(command: list[str], process_type: str, *rest: Any, **options: Any) -> object:
    """Start a process of Ray's; a raylet is told the port that the agent is told, so that it does not wait for it."""
    if process_type == "raylet":
        command = [*command, f"--dashboard_agent_listen_port={sys.argv[sys.argv.index(OPTION) + 1]}"]
    return start_ray_process(command, process_type, *rest, **options)


services.get_node = get_node_in_time
services.start_ray_process = start_told_the_port
scripts.main()
