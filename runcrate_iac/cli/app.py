"""The command's frame: the verbs, and errors as messages with their exit codes."""

from __future__ import annotations

import json
import sys
import traceback
from typing import NoReturn

import typer

from runcrate_iac.cli import (
    artifacts,
    bandwidth,
    check,
    doctor,
    down,
    events,
    gc,
    kubeconfig,
    moved,
    output,
    preview,
    receipt,
    retry,
    setup,
    ssh,
    status,
    up,
)
from runcrate_iac.errors import Failed, Fault, RuncrateError, SpecError
from runcrate_iac.ledger.trouble import explained_os
from runcrate_iac.steps import INTERRUPTED

EPILOG = """\
Exit codes: 0 done; 1 a fault in runcrate-iac itself; 2 the spec or arguments are wrong, nothing was created;
3 failed and everything was released; 4 degraded: machines are up, storage or software is not;
5 something may be left over, with the list; 6 refused: locked, or against a rule;
130 interrupted where there was nothing to undo.
"""

app = typer.Typer(
    name="runcrate-iac",
    help="GPU clusters as code that start whole or not at all.\n\n"
    "Begin with `runcrate-iac doctor`, then `runcrate-iac up cluster.yaml`.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("up")(up.up)
app.command("preview")(preview.preview)
app.command("retry")(retry.retry)
app.command("status")(status.status)
app.command("check")(check.check)
app.command("bandwidth")(bandwidth.bandwidth)
app.command("ssh", context_settings=ssh.CONTEXT)(ssh.ssh)
app.command("kubeconfig")(kubeconfig.kubeconfig)
app.command("down")(down.down)
app.command("gc")(gc.gc)
app.command("moved")(moved.moved)
app.command("events")(events.events)
app.command("receipt")(receipt.receipt)
app.command("doctor")(doctor.doctor)
app.command("setup")(setup.setup)
app.add_typer(artifacts.app)


def main() -> NoReturn:
    """Run the command line and exit with its documented code."""
    try:
        sys.exit(app(standalone_mode=not _as_json()) or 0)
    except typer.TyperException as error:  # with --json; else Typer has told how the verb is used
        _end(SpecError(error.format_message(), f"{output.this_command()} --help"))
    except RuncrateError as error:
        _end(error)
    except OSError as error:
        _end(explained_os(error))
    except KeyboardInterrupt:  # where no command holds a cluster, so that there is nothing to undo
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - a fault of ours, told as what it is
        traceback.print_exception(error)
        _end(Fault(f"a fault in runcrate-iac: {type(error).__name__}: {error}", "report it, with the lines above"))


def _as_json() -> bool:
    return "--json" in sys.argv


def _end(error: RuncrateError) -> NoReturn:
    """Exit with the error's code, and tell it: a document with ``--json``, else its message."""
    if _as_json():
        document: dict[str, object] = {
            "kind": type(error).__name__,
            "message": error.message,
            "remedy": error.remedy,
        }
        if isinstance(error, Failed):
            document["offers"] = error.offers
        sys.stdout.write(json.dumps({"error": document | {"exit_code": error.exit_code}}) + "\n")
    else:
        sys.stderr.write(f"error: {error}\n")
        for offer in getattr(error, "offers", ()):
            sys.stderr.write(f"available now: {offer}\n")
    sys.exit(error.exit_code)
