"""The command line: one file a verb; each verb loads what it needs when it runs."""

from runcrate_iac.cli.app import main

__all__ = ["main"]
