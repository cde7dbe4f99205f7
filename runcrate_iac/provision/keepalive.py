"""Whether a node still answers: one that goes silent is told in seconds, and not when TCP gives up after minutes.

Asked over SSH itself: a gateway, or a port that this computer forwards, acknowledges packets for a dead machine.
"""

from __future__ import annotations

from collections.abc import Callable

import gevent
from paramiko import SSHException, Transport

EVERY = 5.0
"""Seconds between two questions."""
PATIENCE = 18.0
"""Seconds until an answer must be there; with the pause before it, a dead machine is told within 30 s."""


def watch(transport: Transport, lost: Callable[[], None]) -> None:
    """Call ``lost`` once the other side has gone or answers no more; commands that wait for it end with an error."""
    while _answers(transport):
        transport.join(EVERY)
    transport.close()
    lost()


def _answers(transport: Transport) -> bool:
    late = gevent.Timeout(PATIENCE)
    try:
        with late:
            # What OpenSSH's own ServerAliveInterval asks; any answer will do, a refusal too.
            transport.global_request("keepalive@openssh.com", wait=True)
    except gevent.Timeout as timeout:
        if timeout is not late:
            raise
        return False
    except (SSHException, OSError, EOFError):
        return False
    return transport.is_active()
