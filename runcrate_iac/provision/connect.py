"""Connecting: every node by itself, politely, until it answers or can't any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import gevent
from paramiko import Agent, AuthenticationException, BadHostKeyException, PKey, SSHException, Transport
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.api.host import Host

from runcrate_iac.machines import identity
from runcrate_iac.model.network import Node
from runcrate_iac.provision import ssh

PAUSE = 2.0
"""Seconds between two tries. sshd 9.8 and later bans an address that comes more often than once a second (G1)."""
BANNER = 15
"""Seconds that a server has to send its banner."""
SESSION = 60
"""Seconds that it has to agree on keys, and to answer a login, each. paramiko goes on without a session, and with a
misleading error, where its time for the connection ends before that."""
REFUSED, REFUSED_PAUSE = 180.0, 30.0
"""Seconds for which a new machine may refuse the login, and between two tries then: where a guest agent brings the key,
as on Azure and Google Cloud, sshd is up before it does. A refusal costs 5 s of penalty, and sshd bans from 15 s on."""
LOOK = 45.0
"""Seconds for which a check, which goes on without the node, tries to log in to one."""


class Refused(Exception):
    """The machine will never let us in as things are: waiting doesn't help."""

    def __init__(self, reason: str, message: str, remedy: str) -> None:
        """The three words of a condition."""
        super().__init__(message)
        self.reason, self.message, self.remedy = reason, message, remedy


def connect(host: Host, node: Node, known_hosts: Path, waiting: Callable[[str], None], *, new: bool = False) -> None:
    """Return when ``host`` is logged in to; ``waiting`` hears what stands in the way, again and again.

    A machine whose host key nobody knows is pinned here: the key of this first login is the only one accepted later.
    Raises :class:`Refused` for a wrong host key or a refused login; for a login that a ``new`` machine refuses, only
    once it has done so for :data:`REFUSED`. Has no time limit of its own.
    """
    patience = REFUSED if new else 0.0
    while True:
        try:
            host.connect(show_errors=False, raise_exceptions=True)
        except ConnectError as error:
            pause = PAUSE
            try:
                waiting(_why(error, node))
            except Refused as refused:
                if refused.reason != "LoginRefused" or patience < REFUSED_PAUSE:
                    raise
                waiting(f"{refused.message} so far")
                patience -= REFUSED_PAUSE
                pause = REFUSED_PAUSE
        except PyinfraError as error:
            remedy = "look at `identity_file`; a key with a passphrase has to be in your ssh-agent (`ssh-add`)"
            raise Refused("NoKey", f"this computer can't use the key of {node.name}: {error}", remedy) from None
        else:
            if not ssh.is_known(node, known_hosts.read_text()):
                key = transport(host).get_remote_server_key()
                ssh.pin(known_hosts, node, f"{key.get_name()} {key.get_base64()}")
            return
        gevent.sleep(pause)


def agent_key(path: Path) -> PKey | None:
    """The user's ssh-agent's own of a private key that has a passphrase; None where the file itself can be used.

    Each with a connection of its own to the agent, where answers to several askers would be mixed up.
    """
    wanted = _locked(path)
    return next((key for key in Agent().get_keys() if key.fingerprint == wanted), None) if wanted else None


@cache
def _locked(path: Path) -> str:
    return identity.fingerprint(path) if identity.is_locked(path) else ""


def transport(host: Host) -> Transport:
    """The SSH connection of a connected host."""
    found: Transport = host.connector.client.get_transport()  # type: ignore[attr-defined]
    return found


def _why(error: ConnectError, node: Node) -> str:
    """What stands in the way, in words; raises :class:`Refused` where it will stay."""
    cause, machine = error.__context__, node.machine
    where = f"{machine.host}:{machine.port}"
    if isinstance(cause, BadHostKeyException) or "not found in known_hosts" in str(error):
        raise Refused(
            "HostKeyChanged",
            f"the SSH host key at {where} is not the one that was pinned",
            "if the machine was made anew, remove its line from the cluster's known_hosts; else find out who answers",
        )
    # A server that is still booting closes the connection instead of refusing the key (pam_nologin).
    if isinstance(cause, AuthenticationException) and "shut down" not in str(cause):
        raise Refused(
            "LoginRefused",
            f"{where} refuses the login of user {machine.user}",
            "check `user`, `identity_file` and the machine's authorized_keys; a refused key is not offered again (G1)",
        )
    if isinstance(cause, SSHException) and "No authentication methods" in str(cause):
        raise Refused(
            "NoKey",
            f"this computer has no key to offer to {where}",
            "give `identity_file`, or load the key into your ssh-agent (`ssh-add`)",
        )
    if isinstance(cause, SSHException) and "banner" in str(cause):
        return "no SSH banner"
    if isinstance(cause, ConnectionRefusedError) or "Errno None" in str(cause) or "refused" in str(cause):
        return f"SSH port closed at {where}"
    if isinstance(cause, TimeoutError):
        return f"no answer on the SSH port {where}"
    return f"no SSH login yet: {cause or error}"
