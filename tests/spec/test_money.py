"""Money is exact."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from runcrate_iac.model.money import Money
from runcrate_iac.model.offer import Offer
from runcrate_iac.model.spec import Kind

amounts = st.decimals(min_value=0, max_value=10_000, places=6)


@given(amounts, st.integers(2, 64))
def test_a_cluster_costs_its_machines(price: Decimal, count: int) -> None:
    """The whole price is the machine's price times the machines, exactly (C3)."""
    offer = Offer(
        provider="p", location="l", network="ethernet", kind=Kind.VM, gpu="H100", gpus_per_machine=8,
        gpus_simulated=False, machines=count, price_per_machine=Money(usd=price),
    )  # fmt: skip
    assert offer.price.usd == sum([price] * count)


def test_an_amount_is_shown_in_cents() -> None:
    """2.5 USD is shown as $2.50 (C3)."""
    assert str(Money(usd=Decimal("2.5"))) == "$2.50"
