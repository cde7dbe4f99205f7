"""``runcrate-iac receipt NAME``."""

from __future__ import annotations

from datetime import UTC, datetime

from runcrate_iac.cli import output
from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.receipt import receipt as compute


def receipt(name: output.Name, as_json: output.AsJson = False) -> None:
    """Show every machine ever asked for, the proof that it is gone, its seconds alive and its cost (X1)."""
    found = compute(Ledger().entries(name), datetime.now(UTC))
    if found is None:
        raise SpecError(f"no cluster has ever been called {name}", "runcrate-iac status lists them")
    if as_json:
        output.document(found.model_dump(mode="json"))
        return
    rows = [
        (
            row.node,
            row.id,
            f"{row.asked_at:%H:%M:%S}",
            f"{row.billed_from:%H:%M:%S}" if row.billed_from else "",
            row.proof or "not gone",
            row.seconds_alive,
            row.cost,
        )
        for row in found.machines
    ]
    columns = ("node", "machine", "asked (UTC)", "billed from", "proof", "seconds alive", "cost")
    output.table(columns, rows)
    output.console.print(f"{found.cluster} is {found.state}; cost {found.cost}")
