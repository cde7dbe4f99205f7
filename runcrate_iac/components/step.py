"""A step of a cluster as a Pulumi resource: a local command that runs our process."""

import shlex
import sys

import pulumi
from pulumi_command import local


def command(
    name: str,
    module: str,
    create: str,
    document: pulumi.Output[str],
    *,
    opts: pulumi.ResourceOptions,
    delete: str | None = None,
) -> local.Command:
    """A resource that runs ``python -m module create`` with the document on standard input.

    An update runs the same again, since every step can be repeated. Standard error, the news, is shown
    live; standard output is a document for the next step. The old output is kept out of the environment,
    which has no room for a long one (G4).
    """
    python = shlex.join([sys.executable, "-m", module])
    return local.Command(
        name,
        create=f"{python} {create}",
        delete=f"{python} {delete}" if delete else None,
        stdin=document,
        logging=local.Logging.STDERR,
        add_previous_output_in_env=False,
        opts=opts,
    )


def owner() -> str:
    """The stack that runs this program: ``organization/project/stack``."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
