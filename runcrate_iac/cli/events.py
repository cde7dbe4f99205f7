"""``runcrate-iac events NAME``."""

from __future__ import annotations

from typing import Any

from runcrate_iac.cli import output
from runcrate_iac.errors import SpecError
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import Entry, Note
from runcrate_iac.model.conditions import Condition, sentence


def events(name: output.Name, as_json: output.AsJson = False) -> None:
    """Show the cluster's events in the append-only ledger, oldest first."""
    entries = Ledger().entries(name)
    if not entries:
        raise SpecError(f"no cluster has ever been called {name}", "runcrate-iac status lists them")
    if as_json:
        output.document([entry.model_dump(mode="json") for entry in entries])
        return
    rows = [(f"{entry.at:%Y-%m-%d %H:%M:%S}", entry.cluster_id, entry.type, _told(entry)) for entry in entries]
    output.table(("time (UTC)", "cluster", "event", ""), rows)


def _told(entry: Entry) -> str:
    data: dict[str, Any] = entry.data
    match entry.type:
        case Note.STEP_ENDED:
            facts = [sentence(c) for c in map(Condition.model_validate, data["conditions"]) if c.status != "true"]
            return f"{data['step']} {'ok' if data['ok'] else 'failed'} in {data['seconds']} s " + "; ".join(facts)
        case Note.MACHINES:
            return ", ".join(f"{m['id']} at {m['host']}:{m['port']}" for m in data["machines"])
        case Note.MACHINE_MADE | Note.NODE_JOINED:
            return f"{data['node']}: {data['machine']}"
        case Note.UNDO_STARTED | Note.UNDO_ENDED:
            return f"{data['part']} {data.get('error', '')}"
        case Note.MACHINE_GONE:
            return f"{data['machine']}: {data['proof']}"
        case _:
            data = {"reason": f"to {data['spec']['nodes']} nodes"} if entry.type == Note.GROWTH_STARTED else data
            return str(data.get("step") or data.get("reason") or data.get("owner") or data.get("kept") or "")
