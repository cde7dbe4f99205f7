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
        (row.node, row.id, f"{row.asked_at:%H:%M:%S}", row.proof or "not gone", row.seconds_alive, row.cost)
        for row in found.machines
    ]
    output.table(("node", "machine", "asked (UTC)", "proof", "seconds alive", "cost"), rows)
    output.console.print(f"{found.cluster} is {found.state}; cost {found.cost}")
