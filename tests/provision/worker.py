"""The real worker with deploys of the tests: ``python worker.py [--impatient] probe.look probe.write``.

``--impatient``: a node that goes silent is told after 2 seconds and given up after 4; a new one that refuses the login
is tried again every second, three times.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

# First of ours: the import patches gevent.
from runcrate_iac.provision import worker

from runcrate_iac import paths  # isort: skip
from runcrate_iac.provision import connect, keepalive

real = paths.bundled
here = Path(__file__).parent
if "--impatient" in sys.argv:
    keepalive.EVERY, keepalive.QUIET, keepalive.PATIENCE = 1.0, 1.0, 3.0
    connect.REFUSED, connect.REFUSED_PAUSE = 3.0, 1.0
with (
    mock.patch.object(paths, "bundled", lambda name: here / name if name == "deploys" else real(name)),
    mock.patch.object(worker, "deploys", return_value=[word for word in sys.argv[1:] if word != "--impatient"]),
):
    worker.main()
