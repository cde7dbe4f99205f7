"""What launchers need on a node, in a real shell, its files in a folder of the test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runcrate_iac.provision.remote import File, files
from runcrate_iac.render import render
from tests.provision.test_leave import ME

MAY_NOT = "ulimit -l 32; exec setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource sh -s"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose right to raise limits is taken away")
@pytest.mark.parametrize("may", [True, False])
def test_memory_may_be_locked_where_the_machine_can_give_it(tmp_path: Path, *, may: bool) -> None:
    """RDMA gets its memory in every session (C23), but no container that can't raise the limit shuts its users out."""
    limits = tmp_path / "limits.conf"
    put = files(File(str(limits), "* - memlock unlimited\n", owner=ME))
    text = render("launch/launch.sh.j2", packages=[], interface="wg-runcrate", limits="wanted")
    # A limit that this computer can give, which may be a container itself.
    text = text.replace("-l unlimited", "-l 64")
    text = f"wanted() {{\n{put}}}\n{text[text.index('# RDMA') :]}"
    script = f"{render('shell/lib.sh')}\n{text}"
    words = ["sh", "-c", "exec sh -s" if may else MAY_NOT]
    subprocess.run(words, input=script, text=True, check=True, capture_output=True)
    assert limits.exists() == may
