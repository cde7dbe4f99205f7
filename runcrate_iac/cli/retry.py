"""``runcrate-iac retry NAME``."""

from __future__ import annotations

from runcrate_iac.cli import output
from runcrate_iac.cli.display import Display
from runcrate_iac.cli.up import ReplaceHead, end


def retry(name: output.Name, replace_head: ReplaceHead = False, as_json: output.AsJson = False) -> None:
    """Repeat what is not done on a degraded cluster, as it was declared last.

    Its set-up script is read anew from its path; steps, and nodes, that are done are left alone. A machine that is
    lost starts again, one that is gone for good is replaced. To change the spec, run `up` with it instead. Exit code 4
    where the cluster is still degraded.
    """
    from runcrate_iac.engine import install, transaction  # noqa: PLC0415 - Pulumi loads when it is needed

    with Display(as_json=as_json) as display:
        view, changed = transaction.retry(name, install.require(), display, replace_head=replace_head)
    end(view, changed, "nothing to do", as_json=as_json)
