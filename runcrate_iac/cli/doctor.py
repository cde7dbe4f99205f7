"""``runcrate-iac doctor``."""

from __future__ import annotations

import typer

from runcrate_iac.cli import output


def doctor(as_json: output.AsJson = False) -> None:
    """Show what this computer has and lacks, what for and how to get it. Exit code 2 where something is missing."""
    from runcrate_iac.engine.doctor import needs  # noqa: PLC0415 - looks at the computer when asked

    found = needs()
    if as_json:
        output.document([need.model_dump(mode="json") for need in found])
    else:
        rows = [("✓" if n.found else "✗", n.name, n.what_it_is_for, "" if n.found else n.how_to_get_it) for n in found]
        output.table(("", "what", "for", "how to get it"), rows)
    if not all(need.found for need in found):
        raise typer.Exit(2)
