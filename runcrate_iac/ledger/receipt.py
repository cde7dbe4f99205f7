"""The receipt, computed from the ledger alone (X1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal

from runcrate_iac.ledger.view import Entry, Note, View, fold
from runcrate_iac.model.money import FREE, Money
from runcrate_iac.model.receipt import MachineReceipt, Receipt

MICRO = Decimal("0.000001")


def receipt(entries: Sequence[Entry], now: datetime) -> Receipt | None:
    """The receipt of the newest incarnation in one cluster's events; None where there is none."""
    view = fold(entries)
    if view is None:
        return None
    own = [entry for entry in entries if entry.cluster_id == view.cluster_id]
    asked = next((entry.at for entry in own if entry.type == Note.ASKED), view.reserved_at)
    gone = {entry.data["machine"]: entry for entry in own if entry.type == Note.MACHINE_GONE}
    rate = view.price_per_hour.usd / view.spec.nodes
    rows = []
    for machine_id, node in view.made.items():
        end = gone[machine_id].at if machine_id in gone else None
        until = end or view.ended_at or now
        billed = (until - view.joined_at).total_seconds() if view.joined_at else 0.0
        rows.append(
            MachineReceipt(
                node=node,
                id=machine_id,
                asked_at=asked,
                gone_at=end,
                proof=gone[machine_id].data["proof"] if machine_id in gone else "",
                seconds_alive=round((until - asked).total_seconds(), 1),
                cost=_cost(rate, billed),
            )
        )
    rows += [_never_made(node, asked, view) for node in view.unanswered]
    rows.sort(key=lambda row: int(row.node.removeprefix("node-")))
    return Receipt(
        cluster=view.name,
        cluster_id=view.cluster_id,
        state=view.state,
        machines=tuple(rows),
        cost=Money(usd=sum((row.cost.usd for row in rows), FREE.usd)),
        all_gone=view.released and all(row.gone_at for row in rows),
    )


def _never_made(node: str, asked: datetime, view: View) -> MachineReceipt:
    """The row of an order that never had an answer."""
    proof = f"the order had no answer, and {view.spec.provider} listed no machine for it at the end"
    return MachineReceipt(
        node=node,
        id="",
        asked_at=asked,
        gone_at=view.ended_at,
        proof=proof if view.released else "",
        seconds_alive=0,
        cost=FREE,
    )


def _cost(usd_per_hour: Decimal, seconds: float) -> Money:
    amount = usd_per_hour * Decimal(str(max(seconds, 0.0))) / 3600
    return Money(usd=amount.quantize(MICRO, ROUND_HALF_UP))
