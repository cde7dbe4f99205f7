"""The lease on the machine itself: it powers itself off at its deadline, unless the join ended the lease before (X2).

``systemctl stop runcrate-lease.timer`` ends it for good; a reboot before that keeps it.
"""

from __future__ import annotations

from typing import Any

import yaml

from runcrate_iac.errors import SpecError
from runcrate_iac.model.network import node_name
from runcrate_iac.model.offer import JOIN_SECONDS
from runcrate_iac.model.spec import MOST_NODES
from runcrate_iac.paths import bundled

TIMER = "runcrate-lease.timer"
DEADLINE_FILE = "/etc/runcrate/lease"
"""On the machine: seconds since the epoch; while it exists, the lease runs."""
UNITS = tuple(sorted((bundled("templates") / "lease").glob("runcrate-lease*")))
"""The systemd units that watch over it."""


def cloud_config(deadline: str) -> dict[str, Any]:
    """What cloud-init must be told to arm the lease, as a mapping with ``write_files`` and ``runcmd``.

    ``deadline`` is shell arithmetic for the seconds since the epoch; it is evaluated once, at the first boot.
    """
    units = [{"path": f"/etc/systemd/system/{unit.name}", "content": unit.read_text()} for unit in UNITS]
    arm = f'mkdir -p /etc/runcrate && echo "$(({deadline}))" > {DEADLINE_FILE} && systemctl enable --now {TIMER}'
    return {"write_files": units, "runcmd": [["sh", "-c", arm]]}


def user_data(index: int, join_timeout: int = JOIN_SECONDS) -> str:
    """Cloud-init user data that names a cloud machine ``node-INDEX`` and gives it a lease (X2, C8).

    The machine powers itself off ``join_timeout`` seconds after its first boot, unless a cluster has committed it
    before; make that no shorter than the cluster's own ``join_timeout``. The text is the same every time, since a
    cloud replaces a machine whose user data change.

    Raises :class:`SpecError` where the index is not 0 to 63 or the time is not positive.
    """
    if not 0 <= index < MOST_NODES:
        raise SpecError(f"user_data: index: a cluster has the nodes 0 to {MOST_NODES - 1} (given: {index})")
    if join_timeout < 1:
        raise SpecError(f"user_data: join_timeout: seconds, 1 or more (given: {join_timeout})")
    # From the boot on, not from when cloud-init comes to run it, after the packages it may have to install.
    armed = cloud_config(f"$(date +%s) - $(cut -d. -f1 /proc/uptime) + {join_timeout}")
    return "#cloud-config\n" + yaml.safe_dump({"hostname": node_name(index), **armed}, sort_keys=False)
