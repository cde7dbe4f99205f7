"""What a provider is made to do wrong: the faults that :mod:`runcrate_iac.machines.faulty` injects (X8)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from runcrate_iac.model.base import Count, Model, no_bool
from runcrate_iac.model.network import node_name

ALWAYS: Final = "always"
MOST_TIMES = 1_000_000
NO_KIND: Final = "no_kind"
"""The type of the error for a fault that is none."""
NOWHERE = "192.0.2.1"
"""An address of the documentation's network, where nothing answers (RFC 5737)."""


def _times(value: Any) -> Any:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if value == ALWAYS or (whole and value is not True and 1 <= value <= MOST_TIMES):
        return value
    msg = f"a whole number from 1 to {MOST_TIMES}, or {ALWAYS}"
    raise ValueError(msg)


NodeName = Annotated[str, Field(pattern=r"^node-(0|[1-9][0-9]?)$")]
Seconds = Annotated[float, BeforeValidator(no_bool), Field(ge=0, le=24 * 3600, allow_inf_nan=False)]
Times = Annotated[int | Literal["always"], BeforeValidator(_times)]


def _of_a_kind(value: Any) -> Any:
    """The value; pydantic would print whatever stands where the kind should."""
    if isinstance(value, dict) and not (isinstance(value.get("fault"), str) and value["fault"] in KINDS):
        raise PydanticCustomError(NO_KIND, "no such fault")
    return value


class Call(StrEnum):
    """What a provider is asked."""

    CREATE = "create"
    LIST = "list"
    DELETE = "delete"


class _Fault(Model):
    node: NodeName | None = None
    """The node that it is about, as ``node-1``; every node where it is left out."""
    times: Times = 1
    """How often, or ``always``: calls, and machines where it is a machine's fault."""


class _OnCall(_Fault):
    call: Call
    """``create``, ``list`` or ``delete``. (Not `on`: YAML reads that word as yes.)"""

    @model_validator(mode="after")
    def _lists_of_all(self) -> Self:
        if self.call is Call.LIST and self.node:
            msg = "a list is of the whole cluster: leave `node` out"
            raise ValueError(msg)
        return self


class _OnAnswer(_OnCall):
    done: bool = False
    """What was asked is done all the same, and only the answer suffers."""


class Slow(_OnAnswer):
    """The call takes this long."""

    fault: Literal["slow"]
    seconds: Seconds


class Hang(_OnAnswer):
    """The call never returns."""

    fault: Literal["hang"]


class Error(_OnAnswer):
    """The call is answered with an error of the server."""

    fault: Literal["error"]
    status: Annotated[Count, Field(ge=500, le=599)] = 500


class Dropped(_OnAnswer):
    """The connection drops before the answer."""

    fault: Literal["dropped"]


class RateLimit(_OnCall):
    """The call is refused with 429, and with the seconds after which it may be asked again."""

    fault: Literal["rate_limit"]
    retry_after: Seconds


class RevokedKey(_OnCall):
    """The call is refused with 401: asking again is of no use."""

    fault: Literal["revoked_key"]


class Failed(_Fault):
    """The order fails for good: the provider says that this machine can't come up."""

    fault: Literal["failed"]
    done: bool = False
    """There is a machine all the same."""


class StatusFailed(_Fault):
    """The machine comes up, and the provider says `failed` of it so long after it was made."""

    fault: Literal["status_failed"]
    seconds: Seconds


class NotListed(_Fault):
    """The machine is not listed until so long after it was made."""

    fault: Literal["not_listed"]
    seconds: Seconds


class WrongAddress(_Fault):
    """The provider tells an address at which the machine is not."""

    fault: Literal["wrong_address"]
    node: NodeName
    address: Annotated[str, Field(pattern=r"^[A-Za-z0-9.:_-]{1,253}$")] = NOWHERE


class SameAddress(_Fault):
    """The provider tells the address of another node's machine."""

    fault: Literal["same_address"]
    node: NodeName
    of: NodeName
    """The node whose address it is."""


class Lie(_Fault):
    """The delete is answered with yes, and the machine stays."""

    fault: Literal["lie"]


OnCall = Slow | Hang | Error | Dropped | RateLimit | RevokedKey
OfMachine = StatusFailed | NotListed | WrongAddress | SameAddress
Fault = Annotated[OnCall | Failed | Lie | OfMachine, Field(discriminator="fault"), BeforeValidator(_of_a_kind)]
KINDS: dict[str, type[_Fault]] = {
    get_args(kind.model_fields["fault"].annotation)[0]: kind
    for kind in (*get_args(OnCall), Failed, Lie, *get_args(OfMachine))
}
"""Every kind of fault, by its name."""


def call_of(fault: Fault) -> Call | None:
    """The call that the fault is in; None for a fault of a machine."""
    if isinstance(fault, Failed):
        return Call.CREATE
    if isinstance(fault, Lie):
        return Call.DELETE
    return fault.call if isinstance(fault, _OnCall) else None


def checked(faults: Sequence[Fault], nodes: int) -> None:
    """Raise :class:`ValueError` where a fault is about none of so many nodes, or is there twice."""
    names = [node_name(index) for index in range(nodes)]
    for number, fault in enumerate(faults):
        named = [fault.node] if fault.node else []
        if isinstance(fault, SameAddress):
            named.append(fault.of)
        if len(named) != len(set(named)):
            msg = f"fault {number}: {fault.node} has its own address anyway: name another node in `of`"
            raise ValueError(msg)
        if unknown := [node for node in named if node not in names]:
            msg = f"fault {number}: there is no {unknown[0]}, the nodes are {names[0]} to {names[-1]}"
            raise ValueError(msg)
        if fault in faults[:number]:
            msg = f"fault {number}: the same as {list(faults).index(fault)}: say `times` instead"
            raise ValueError(msg)


def told(faults: Sequence[Fault]) -> str:
    """One line that says what is injected: ``faults are injected: create dropped (node-0), not_listed``."""
    return "faults are injected: " + ", ".join(dict.fromkeys(map(_told, faults)))


def _told(fault: Fault) -> str:
    call = f"{fault.call} " if isinstance(fault, _OnCall) else ""
    return f"{call}{fault.fault}" + (f" ({fault.node})" if fault.node else "")


def phrase(status: int) -> str:
    """``504 Gateway Timeout``."""
    known = status in {member.value for member in HTTPStatus}
    return f"{status} {HTTPStatus(status).phrase}" if known else str(status)
