"""The life of a cluster: one table. Everything that affects a transition is in this file."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from runcrate_iac.model.progress import RELEASES, Step


class State(StrEnum):
    """The states a user sees."""

    PROVISIONING = "provisioning"
    INSTALLING = "installing"
    READY = "ready"
    DEGRADED = "degraded"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FAILED = "failed"
    STOPPED = "stopped"


class Happened(StrEnum):
    """Facts that move a cluster from state to state; past tense, as the ledger records them."""

    RESERVED = "reserved"
    """Machines were asked for; nothing is billed yet (C4)."""
    JOINED = "joined"
    """All nodes reach all: the common moment, billing starts (C5); software follows."""
    JOINED_BARE = "joined_bare"
    """The same with no software: ready at once (C5)."""
    INSTALL_FAILED = "install_failed"
    """Storage, software or check failed after the join (C9)."""
    INSTALL_RETRIED = "install_retried"
    """Storage, software or check runs again."""
    CHECKED = "checked"
    """The software checked itself on every node (C6)."""
    NODE_LOST = "node_lost"
    """A check of a ready cluster found a node or service missing."""
    RECOVERED = "recovered"
    """A check of a degraded cluster found everything well."""
    START_FAILED = "start_failed"
    """A machine failed or the join missed its deadline; everything is being released (C8)."""
    TERMINATE_ASKED = "terminate_asked"
    """The user, or a rollback, asked for the end of the whole cluster (C7)."""
    RELEASED = "released"
    """The provider was asked and nothing is left."""
    FUNDS_ENDED = "funds_ended"
    """The balance or the budget ran out (C10)."""


_S, _H = State, Happened

TABLE: MappingProxyType[tuple[State, Happened], State] = MappingProxyType(
    {
        (_S.PROVISIONING, _H.JOINED): _S.INSTALLING,
        (_S.PROVISIONING, _H.JOINED_BARE): _S.READY,
        (_S.PROVISIONING, _H.START_FAILED): _S.FAILED,
        (_S.PROVISIONING, _H.TERMINATE_ASKED): _S.TERMINATING,
        (_S.INSTALLING, _H.CHECKED): _S.READY,
        (_S.INSTALLING, _H.INSTALL_FAILED): _S.DEGRADED,
        (_S.INSTALLING, _H.TERMINATE_ASKED): _S.TERMINATING,
        (_S.INSTALLING, _H.FUNDS_ENDED): _S.STOPPED,
        (_S.READY, _H.NODE_LOST): _S.DEGRADED,
        (_S.READY, _H.INSTALL_RETRIED): _S.INSTALLING,
        (_S.READY, _H.TERMINATE_ASKED): _S.TERMINATING,
        (_S.READY, _H.FUNDS_ENDED): _S.STOPPED,
        (_S.DEGRADED, _H.INSTALL_RETRIED): _S.INSTALLING,
        (_S.DEGRADED, _H.RECOVERED): _S.READY,
        (_S.DEGRADED, _H.TERMINATE_ASKED): _S.TERMINATING,
        (_S.DEGRADED, _H.FUNDS_ENDED): _S.STOPPED,
        (_S.STOPPED, _H.TERMINATE_ASKED): _S.TERMINATING,
        (_S.TERMINATING, _H.RELEASED): _S.TERMINATED,
        (_S.FAILED, _H.RELEASED): _S.FAILED,
    }
)
"""state × event → state; what is not here cannot happen."""

ENDED = frozenset({State.TERMINATED, State.FAILED})
"""States in which a cluster's name is free again, once nothing of it is left."""


def start() -> State:
    """The state after :attr:`Happened.RESERVED`, the first event of every cluster."""
    return State.PROVISIONING


def advance(state: State, event: Happened) -> State:
    """The state after ``event``.

    Raises :class:`ValueError`, with nothing changed, where the table has no such transition.
    """
    try:
        return TABLE[state, event]
    except KeyError:
        msg = f"a cluster that is {state} cannot have {event}"
        raise ValueError(msg) from None


def before_step(state: State, step: Step) -> Happened | None:
    """What it means for the cluster's state that this step starts; None where nothing changes."""
    if state is State.DEGRADED and step not in RELEASES:
        return Happened.INSTALL_RETRIED
    if state is State.READY and step in (Step.SOFTWARE, Step.SETUP):
        return Happened.INSTALL_RETRIED
    return None


def after_step(state: State, step: Step, *, ok: bool, bare: bool, growing: bool = False) -> Happened | None:
    """What it means that this step ended; ``bare`` where nothing has to follow the join (C5).

    ``growing``: workers are being added; where they do not come up or join, they go, and the cluster is what it was.
    """
    if growing and step in RELEASES:
        return None
    if ok and step is Step.JOIN and state is State.PROVISIONING:
        return Happened.JOINED_BARE if bare else Happened.JOINED
    if ok and step is Step.CHECK and state is State.INSTALLING:
        return Happened.CHECKED
    if not ok and state is State.INSTALLING:
        return Happened.INSTALL_FAILED
    if not ok and state is State.READY:
        return Happened.NODE_LOST
    return None


def mermaid() -> str:
    """The table as a mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.PROVISIONING}: {Happened.RESERVED}"]
    lines += [f"    {before} --> {after}: {event}" for (before, event), after in TABLE.items()]
    return "\n".join([*lines, *(f"    {state} --> [*]" for state in sorted(ENDED))]) + "\n"
