"""``runcrate-iac preview SPEC``."""

from __future__ import annotations

from runcrate_iac.cli import output
from runcrate_iac.cli.offers import chosen, more
from runcrate_iac.cli.up import Spec
from runcrate_iac.ledger.events import Ledger
from runcrate_iac.machines.step import refuse_change
from runcrate_iac.model import faults
from runcrate_iac.model.network import node_name, private_address
from runcrate_iac.specfile import load


def preview(spec: Spec, as_json: output.AsJson = False) -> None:
    """Show the price per hour and what `up` would create or change. Reserves and touches nothing."""
    from runcrate_iac.engine import install  # noqa: PLC0415 - Pulumi loads when it is needed
    from runcrate_iac.engine.program import owner, program  # noqa: PLC0415
    from runcrate_iac.engine.pulumi import Stack  # noqa: PLC0415

    wanted = load(spec)
    engine = install.require()
    view = Ledger().current(wanted.name)
    if view is not None:
        refuse_change(view, wanted, owner(wanted.name))
    offer = chosen(wanted) if view is None else more(view, wanted)
    changes = dict(Stack(engine, wanted.name, program(wanted)).preview())
    nodes = {node_name(index): str(private_address(index)) for index in range(wanted.nodes)}
    if as_json:
        priced = offer.model_dump(mode="json") | {"price_per_hour": str(offer.price.usd)} if offer else None
        output.document({"spec": wanted.model_dump(mode="json"), "offer": priced, "nodes": nodes, "changes": changes})
        return
    if view:
        output.console.print(f"{wanted.name} is up: {view.state}")
    if offer:
        output.console.print(output.growth(offer, view.price_per_hour) if view else output.price(offer))
    if wanted.faults:
        output.console.print(faults.told(wanted.faults))
    output.table(("node", "private address"), list(nodes.items()))
    output.console.print("resources: " + ", ".join(f"{count} to {kind}" for kind, count in sorted(changes.items())))
