"""A step of a cluster as a Pulumi resource: a local command that runs our process."""

import shlex
import sys
from functools import partial

import pulumi
from pulumi_command import local

_LINE = 'python={recorded}; [ -x "$python" ] || python=python3; exec "$python" -m {module} {verb}'


def command(
    name: str,
    module: str,
    create: str,
    document: pulumi.Output[str],
    *,
    opts: pulumi.ResourceOptions,
    update: str | None = None,
    delete: str | None = None,
) -> local.Command:
    """A resource that runs ``python -m module create`` with the document on standard input.

    An update runs the same again, since every step can be repeated, or ``update`` where that is given. Standard error,
    the news, is shown live; standard output is a document for the next step. The old output is kept out of the
    environment, which has no room for a long one (G4).
    """
    run = partial(_shell, module)
    return local.Command(
        name,
        create=run(create),
        update=run(update) if update else None,
        delete=run(delete) if delete else None,
        stdin=document,
        logging=local.Logging.STDERR,
        add_previous_output_in_env=False,
        opts=opts,
    )


def _shell(module: str, verb: str) -> str:
    """A line for the shell that becomes ``python -m module verb``.

    Pulumi keeps it with the resource: the environment that made it may be gone when it is destroyed (C7).
    """
    return _LINE.format(recorded=shlex.quote(sys.executable), module=module, verb=verb)


def owner() -> str:
    """The stack that runs this program: ``organization/project/stack``."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
