"""The receipt, computed from the ledger alone: each machine from its own moment to its own end (X1, C11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal

from runcrate_iac.ledger.view import Entry, Note, View, after, fold
from runcrate_iac.model.lifecycle import Happened
from runcrate_iac.model.money import FREE, Money
from runcrate_iac.model.network import node_name
from runcrate_iac.model.receipt import MachineReceipt, Receipt

MICRO = Decimal("0.000001")


@dataclass
class _Life:
    """One machine; another one may get its id when it is gone."""

    node: str
    id: str
    """Empty where the order never had an answer."""
    asked_at: datetime
    billed_from: datetime | None = None
    rate: Decimal = Decimal(0)
    """USD per hour."""
    gone_at: datetime | None = None
    proof: str = ""

    def row(self, until: datetime) -> MachineReceipt:
        """Its row; ``until``: now, or the end of the cluster."""
        end = self.gone_at or until
        billed = (end - self.billed_from).total_seconds() if self.billed_from else 0.0
        return MachineReceipt(
            node=self.node,
            id=self.id,
            asked_at=self.asked_at,
            billed_from=self.billed_from,
            gone_at=self.gone_at,
            proof=self.proof,
            seconds_alive=round((end - self.asked_at).total_seconds(), 1) if self.id else 0,
            cost=_cost(self.rate, billed),
        )


class _Lives:
    """The machines of one cluster, as its events tell of them one after the other."""

    def __init__(self) -> None:
        self.all: list[_Life] = []
        self._asked: dict[str, datetime] = {}

    def take(self, view: View, entry: Entry) -> None:
        """``view`` is the cluster after the event."""
        match entry.type:
            case Note.ASKED:
                for index in range(view.declared.nodes):
                    self._asked.setdefault(node_name(index), entry.at)
            case Note.MACHINE_GONE:
                life = self._of(entry.data["machine"], entry.data["node"], view)
                life.gone_at, life.proof = entry.at, entry.data["proof"]
                self._asked.pop(life.node, None)
            case Note.GROWTH_UNDONE:
                self._never_made(view.spec.nodes, entry.at, f"{view.spec.provider} listed no machine for it then")
            case Happened.RELEASED:
                self._never_made(0, entry.at, f"{view.spec.provider} listed no machine for it at the end")
        for key in view.made.keys() - set(view.gone):
            self._of(key, view.made[key], view)
        for key, moment in view.joined.items():
            life = self._of(key, view.made[key], view)
            if life.billed_from is None:
                life.billed_from, life.rate = moment, view.rates[life.node]

    def unanswered(self) -> list[_Life]:
        """The orders that have had no answer."""
        made = {life.node for life in self.all if life.gone_at is None or life.id == ""}
        return [_Life(node, "", asked) for node, asked in self._asked.items() if node not in made]

    def _of(self, key: str, node: str, view: View) -> _Life:
        """The life of the machine that has this id now."""
        for life in self.all:
            if life.id == key and life.gone_at is None:
                return life
        self.all.append(_Life(node, key, self._asked.get(node, view.reserved_at)))
        return self.all[-1]

    def _never_made(self, first: int, at: datetime, proof: str) -> None:
        for life in self.unanswered():
            if int(life.node.removeprefix("node-")) >= first:
                life.gone_at, life.proof = at, f"the order had no answer, and {proof}"
                self.all.append(life)
                self._asked.pop(life.node)


def receipt(entries: Sequence[Entry], now: datetime) -> Receipt | None:
    """The receipt of the newest incarnation in one cluster's events; None where there is none."""
    view = fold(entries)
    if view is None:
        return None
    lives, passing = _Lives(), None
    for entry in entries:
        if entry.cluster_id == view.cluster_id and (passing := after(passing, entry)) is not None:
            lives.take(passing, entry)
    rows = [life.row(view.ended_at or now) for life in (*lives.all, *lives.unanswered())]
    rows.sort(key=lambda row: (int(row.node.removeprefix("node-")), row.asked_at))
    return Receipt(
        cluster=view.name,
        cluster_id=view.cluster_id,
        state=view.state,
        machines=tuple(rows),
        cost=Money(usd=sum((row.cost.usd for row in rows), FREE.usd)),
        all_gone=view.released and all(row.gone_at for row in rows),
    )


def _cost(usd_per_hour: Decimal, seconds: float) -> Money:
    amount = usd_per_hour * Decimal(str(max(seconds, 0.0))) / 3600
    return Money(usd=amount.quantize(MICRO, ROUND_HALF_UP))
