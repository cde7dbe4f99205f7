"""The real worker with deploys of the tests: ``python worker.py probe.look probe.write``."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

# First of ours: the import patches gevent.
from runcrate_iac.provision import worker

from runcrate_iac import paths  # isort: skip

real = paths.bundled
here = Path(__file__).parent
with (
    mock.patch.object(paths, "bundled", lambda name: here / name if name == "deploys" else real(name)),
    mock.patch.object(worker, "deploys", return_value=sys.argv[1:]),
):
    worker.main()
