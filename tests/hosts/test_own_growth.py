"""Growth of a cluster of the user's own machines: taken in or left alone, as containers of this computer."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runcrate_iac.ledger.events import Ledger
from runcrate_iac.ledger.view import View
from runcrate_iac.model.lifecycle import State
from runcrate_iac.model.progress import Step
from tests.hosts.conftest import Computer
from tests.hosts.own import BLOCKED, LOOK, ROOT, Own, changes, lent
from tests.machines import until

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(not ROOT, reason="containers need root")]
SECONDS = 60
"""How long the first two may take to join."""
GROWTH_SECONDS = 15
"""How long a third one may take that does not answer; its lease ends 20 s later."""
CONFIGURED = "WireGuard, firewall, SSH"
PEERS = "wg show wg-runcrate peers 2> /dev/null | wc -l"


@pytest.fixture(scope="module")
def own(any_computer: Computer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """Three machines, of which two are a cluster that is ready."""
    with lent("more", 3, any_computer, tmp_path_factory.mktemp("more")) as found:
        join(found, 2, SECONDS)
        yield found


def join(own: Own, nodes: int, seconds: int) -> None:
    """The machines step and the join with so many machines, well."""
    own.run("provision", Step.JOIN, own.again(nodes, seconds)(Step.JOIN))


def view(own: Own) -> View:
    """The cluster as the ledger tells it."""
    ledger = Ledger(own.computer.home / "ledger.db")
    found = ledger.current(own.name)
    ledger.close()
    assert found
    return found


def as_before(own: Own) -> None:
    """It is ready with two nodes that know each other and nobody else."""
    now = view(own)
    assert (now.state, now.spec.nodes, len(now.machines), now.growth) == (State.READY, 2, 2, None)
    assert [own.shell(index, PEERS) for index in (0, 1)] == ["1\n"] * 2
    assert [own.shell(index, "grep -c node-2 /etc/hosts || :") for index in (0, 1)] == ["0\n"] * 2
    own.shell(1, "ping -c 1 -W 5 node-0")


def test_a_third_that_does_not_join_is_left_as_it_was(own: Own) -> None:
    """The growth fails; the third machine is what it was file by file, and the two are as they were (C8, C22)."""
    own.shell(2, "nft -f -" + BLOCKED)
    before = own.shell(2, LOOK)
    step = own.start("provision", Step.JOIN, own.again(3, GROWTH_SECONDS)(Step.JOIN))
    step.communicate(timeout=300)
    assert step.returncode == 3
    as_before(own)
    assert changes([before], [own.shell(2, LOOK)]) == []


def test_what_a_killed_growth_left_is_cleared(own: Own) -> None:
    """After kill -9 in the join the next update of the two clears their peers, and its lease clears the third (X2)."""
    before, document, seen = own.shell(2, LOOK), own.again(3, GROWTH_SECONDS), len(own.news())
    step = own.start("provision", Step.JOIN, document(Step.JOIN))
    until(lambda: len(re.findall(CONFIGURED, own.news()[seen:])) >= 3, "the configuration of the nodes")
    until(lambda: own.shell(0, PEERS) == "2\n", "the new peer")
    os.killpg(step.pid, signal.SIGKILL)
    step.communicate()
    assert view(own).growth
    join(own, 2, SECONDS)
    as_before(own)
    until(lambda: own.shell(2, "ls -d /var/lib/runcrate 2> /dev/null || :") == "", "the end of the third's lease")
    assert changes([before], [own.shell(2, LOOK)]) == []
    own.shell(2, "nft delete table inet silent")


def test_another_computers_cluster_takes_no_node_away(own: Own, tmp_path: Path) -> None:
    """A cluster that wants one of the two is refused by that machine's word; it and the third are not touched (C7)."""
    before = own.shell(2, LOOK)
    other = replace(own, name="other", computer=Computer(tmp_path / "home"), given=[own.given[2], own.given[1]])
    step = other.start("provision", Step.JOIN, other.reserve(SECONDS)(Step.JOIN))
    step.communicate(timeout=300)
    assert step.returncode == 3
    assert f"is a node of the cluster {view(own).cluster_id}" in other.news()
    as_before(own)
    assert changes([before], [own.shell(2, LOOK)]) == []


def test_the_head_is_not_exchanged_for_another_machine(own: Own) -> None:
    """The third in the head's place is refused and not touched; with the head's own machine all is well again (C19)."""
    before = own.shell(2, LOOK)
    exchanged = replace(own, given=[own.given[2], own.given[1]])
    step = own.start("provision", Step.JOIN, exchanged.again(2, SECONDS)(Step.JOIN))
    step.communicate(timeout=300)
    assert step.returncode == 3
    assert "is not the machine that is node-0" in own.news()
    assert changes([before], [own.shell(2, LOOK)]) == []
    own.shell(1, "ping -c 1 -W 5 node-0")
    document = own.again(2, SECONDS)
    for well in (Step.JOIN, Step.STORAGE, Step.CHECK):
        own.run("provision", well, document(well))
    as_before(own)


def test_a_third_is_taken_in(own: Own) -> None:
    """From two given machines to three: all reach all, and the tunnel of the two was never cut (C11)."""
    handshake = "wg show wg-runcrate latest-handshakes | sort"
    first = own.shell(0, handshake)
    join(own, 3, SECONDS)
    assert first.split()[0] in own.shell(0, handshake)
    now = view(own)
    assert (now.state, now.spec.nodes, len(now.machines), now.growth) == (State.READY, 3, 3, None)
    assert own.each("for n in node-0 node-1 node-2; do ping -q -c 1 -W 5 $n > /dev/null || echo $n; done") == [""] * 3


def test_the_end_leaves_all_three_as_they_were(own: Own) -> None:
    """What was added leaves with the others (C7, C22)."""
    document = own.again(3, SECONDS)
    own.run("provision", "leave", document(Step.JOIN))
    own.run("machines", "release", own.document(3, SECONDS))
    assert own.each("ls -d /var/lib/runcrate /etc/wireguard/wg-runcrate.conf 2> /dev/null || :") == [""] * 3
