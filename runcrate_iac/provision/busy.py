"""How long each node works for a step: what the same commands cost by hand, over a connection that is open already."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

from pyinfra.api.host import Host


class Busy:
    """Seconds per node, summed over the commands that run on it."""

    def __init__(self) -> None:
        """No command has run."""
        self.seconds: dict[str, float] = defaultdict(float)

    def watch(self, host: Host) -> None:
        """Time every command of a connected host from now on."""
        run = host.connector.run_shell_command

        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = time.monotonic()
            try:
                return run(*args, **kwargs)
            finally:
                self.seconds[host.name] += time.monotonic() - begun

        host.connector.run_shell_command = timed  # type: ignore[method-assign]
