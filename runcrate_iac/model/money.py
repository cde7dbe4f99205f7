"""Money as exact decimal amounts of USD; never a float."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Annotated

from pydantic import Field

from runcrate_iac.model.base import Model

CENT = Decimal("0.01")


class Money(Model):
    """An amount of USD, exact to a millionth."""

    usd: Annotated[Decimal, Field(max_digits=18, decimal_places=6)]

    def times(self, count: int) -> Money:
        """``count`` times this amount."""
        return Money(usd=self.usd * count)

    def plus(self, other: Money) -> Money:
        """The sum of both."""
        return Money(usd=self.usd + other.usd)

    def __str__(self) -> str:
        return f"${self.usd.quantize(CENT, ROUND_HALF_EVEN)}"


FREE = Money(usd=Decimal(0))
