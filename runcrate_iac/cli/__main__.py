"""``python -m runcrate_iac.cli``: the command, for programs that call it by this interpreter."""

from runcrate_iac.cli import main

main()
