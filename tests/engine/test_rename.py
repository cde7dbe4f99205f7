"""A cluster's name is for life: with plain Pulumi and a provider whose machines cost nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.lab import HANGS, Lab
from tests.machines import until

pytestmark = pytest.mark.engine
PROGRAM = """
from runcrate_iac import Cluster

Cluster("train", cluster_name="{name}", provider="fakecloud", join_timeout=600, faults=[{hangs}])
"""


def test_another_name_for_a_cluster_that_is_up_is_refused(cli: Any, lab: Lab) -> None:
    """A changed cluster_name would leave a cluster that nothing ends: preview and up refuse it, untouched (C7, X1)."""
    cli.env = cli.env | {name: lab.env[name] for name in ("RUNCRATE_IAC_HOME", "FAKECLOUD", "PYTHONPATH")}
    cli.write(PROGRAM.format(name="a", hangs=HANGS))
    cli("stack", "init", "dev")
    up = cli.start("up", "--yes", "--skip-preview")
    until(lambda: len(lab.machines) == 2, "two machines")
    up.kill()
    up.communicate(timeout=30)
    before = lab.machines
    cli.write(PROGRAM.format(name="b", hangs=HANGS))
    assert "a is provisioning, and a cluster's name can't become another one: b" in cli("preview", fails=True)
    cli("cancel", "--yes")
    assert "keep `cluster_name: a`" in cli.up(fails=True)
    assert lab.machines == before
    assert lab.run("down", "a", "--yes")[0] == 0
    assert lab.machines == []
