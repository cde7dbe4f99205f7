"""Written by runcrate-iac. Ray's own command with more patience: `ray start` gives its raylet 30 seconds and no more.

A slow or busy machine needs longer, would start all over again, and never be done.
"""

import time

from ray._private import services
from ray.scripts import scripts

SECONDS = 600.0
get_node = services.get_node


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


services.get_node = get_node_in_time
scripts.main()
