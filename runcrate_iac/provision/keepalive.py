"""Whether a node still answers: one that goes silent is told in seconds, and not when TCP gives up after minutes.

Asked over SSH itself: a gateway, or a port that this computer forwards, acknowledges packets for a dead machine.
"""

from __future__ import annotations

from collections.abc import Callable

import gevent
from paramiko import Transport

EVERY = 5.0
"""Seconds between two questions."""
QUIET = 15.0
"""Seconds without an answer until the machine is named; with the pause before it, that is within 30 s."""
PATIENCE = 45.0
"""Seconds until it is given up. A machine on a computer that is busy beyond measure was seen to take 20."""


def watch(transport: Transport, silent: Callable[[], None], lost: Callable[[], None]) -> None:
    """Call ``silent`` each time that an answer takes long, and ``lost`` once the other side has gone or gives none.

    Commands that wait for it end with an error then.
    """
    while _answers(transport, silent):
        transport.join(EVERY)
    transport.close()
    lost()


def _answers(transport: Transport, silent: Callable[[], None]) -> bool:
    # What OpenSSH's own ServerAliveInterval asks; any answer will do, a refusal too.
    asking = gevent.spawn(transport.global_request, "keepalive@openssh.com", wait=True)
    asking.join(QUIET)
    if not asking.ready():
        silent()
        asking.join(PATIENCE - QUIET)
    answered = asking.ready() and transport.is_active()
    asking.kill()
    return answered
