"""The base of all models: frozen, and a field nobody knows is an error."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Model(BaseModel):
    """A frozen value; unknown fields are refused so that a typo is never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def no_bool(value: Any) -> Any:
    """The value; raises :class:`ValueError` where it is yes or no."""
    if isinstance(value, bool):
        msg = "must be a number, not yes or no"
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports ValueError by field
    return value


Count = Annotated[int, BeforeValidator(no_bool)]
"""A whole number; YAML's ``yes`` is not 1."""
