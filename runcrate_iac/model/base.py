"""The base of all models: frozen, and a field nobody knows is an error."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A frozen value; unknown fields are refused so that a typo is never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid")
