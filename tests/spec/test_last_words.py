"""What a node's condition says of a script that failed: its own last lines."""

from __future__ import annotations

import logging

from runcrate_iac.provision.remote import MARKER
from runcrate_iac.provision.tell import LastWords


def test_a_failure_is_told_in_the_scripts_own_words() -> None:
    """Neither what a login shell prints, nor our marker, nor pyinfra's own frame stands in a message (F29)."""
    words = LastWords()
    for line in ("Welcome!", f"No mail.{MARKER}", "no space left", "Error in nested operation: 1"):
        words.emit(logging.makeLogRecord({"msg": f"[node-1] nested {line}"}))
    assert words.of("node-1") == "no space left"
    assert words.of("node-0") == ""
