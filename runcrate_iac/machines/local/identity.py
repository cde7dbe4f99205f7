"""A clone's own identity, given through the guest agent: out of band, so its SSH host key is known, not trusted."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from runcrate_iac.machines.local import qmp
from runcrate_iac.machines.local.network import lan_address, lan_mac
from runcrate_iac.machines.provider import Reservation
from runcrate_iac.model.network import node_name

_SCRIPT = Path(__file__).parent / "guest" / "identity.sh"


async def give(folder: Path, index: int, request: Reservation) -> str:
    """Give the machine in ``folder`` the identity of node ``index`` and start its sshd.

    Returns its SSH host key as ``type base64``.
    """
    async with qmp.agent(folder) as agent:
        key = await qmp.run_script(agent, script(index, request, time.time()))
    return " ".join(key.split()[:2])


def script(index: int, request: Reservation, now: float) -> str:
    """The script that does it, its values first; ``now`` in seconds since the epoch."""
    values = {
        "now": f"{now:.3f}",
        "node": node_name(index),
        "mac": lan_mac(index),
        "address": str(lan_address(index)),
        "keys": "\n".join(request.authorized_keys),
        "lease": f"{request.deadline:.0f}",
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    return "\n".join([*lines, _SCRIPT.read_text()])
