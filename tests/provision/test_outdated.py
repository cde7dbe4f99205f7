"""Whether a service has what its files say, in a real shell: the restart may be what a step that broke off lacks."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runcrate_iac.render import render

STARTED = datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC).timestamp()


@pytest.mark.parametrize(
    ("state", "written", "restart"),
    [
        ("active", -3600, False),
        ("active", -0.01, False),
        ("active", 0.01, True),
        ("reloading", -0.01, False),
        ("activating", -0.01, True),
        ("failed", -0.01, True),
    ],
)
def test_a_service_older_than_its_files_starts_over(tmp_path: Path, state: str, written: float, restart: bool) -> None:
    """A file that is newer than the service's start, or a service that isn't active, asks for a restart (C9)."""
    told = ["Sun 2026-03-01 12:00:00.250000 UTC", f"ActiveState={state}"]
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f"#!/bin/sh\necho '{told[1]}'\necho 'InactiveExitTimestamp={told[0]}'\n")
    systemctl.chmod(0o755)
    for name, age in (("old", -7200.0), ("new", written)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (STARTED + age,) * 2)
    text = f"{render('shell/lib.sh')}\nPATH={tmp_path}:$PATH\n{render('shell/outdated.sh')}\n"
    text += f"if outdated InactiveExitTimestamp a.service {tmp_path}/old {tmp_path}/new; then echo restart; fi\n"
    done = subprocess.run(["sh", "-s"], input=text, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("restart\n" if restart else "", "")
