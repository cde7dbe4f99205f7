"""Which pairs are measured when, and what the measuring programs' answers mean: pure (C16)."""

from __future__ import annotations

import itertools
import json

import pytest

from runcrate_iac.errors import SpecError
from runcrate_iac.model import bandwidth
from runcrate_iac.model.bandwidth import Round, Speed
from runcrate_iac.model.network import Machine, Node, plan
from runcrate_iac.render import render


def nodes(count: int) -> tuple[Node, ...]:
    """So many nodes."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}") for i in range(count)]).nodes


def names(rounds: tuple[Round, ...]) -> list[list[frozenset[str]]]:
    """The rounds' pairs by name, with no order within a pair."""
    return [[frozenset((one.name, other.name)) for one, other in pairs] for pairs in rounds]


def undisturbed(rounds: tuple[Round, ...]) -> bool:
    """Whether no node is in two pairs of one round."""
    return all(len(frozenset().union(*pairs)) == 2 * len(pairs) for pairs in names(rounds))


@pytest.mark.parametrize("words", ["0,2", "0, 2", " node-2 ,0\n", "node-0, node-2,2"])
def test_nodes_are_chosen_by_number_or_name(words: str) -> None:
    """Blanks around a number or a name, their order and a repetition don't matter (C16)."""
    assert [node.name for node in bandwidth.named(words, nodes(3))] == ["node-0", "node-2"]


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("", "'': there is no such node"),
        ("0,,1", "'': there is no such node"),
        ("0 1", "'0 1': there is no such node"),
        ("0,3,node-7", "'3', 'node-7': there is no such node"),
        ("-1,0", "'-1': there is no such node"),
        ("9" * 5000, "there is no such node"),
        ("1, node-1", "that is one node, and a measurement needs two"),
    ],
)
def test_nodes_that_are_none_are_refused(words: str, fact: str) -> None:
    """What is no node is told with the option and what is right, as a wrong argument, before anything is done (C16)."""
    with pytest.raises(SpecError) as error:
        bandwidth.named(words, nodes(3))
    assert error.value.message.startswith("--nodes: ")
    assert error.value.message.endswith(fact)
    assert len(error.value.message) < 200
    assert error.value.remedy.startswith("two or more of 0 to 2, such as --nodes 0,1")
    assert error.value.exit_code == 2


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 63, 64])
def test_a_tournament_has_every_pair_once_and_no_node_twice_a_round(count: int) -> None:
    """N nodes take N - 1 rounds, or N where N is odd; in none is a node measured by two others at once (C16)."""
    every = nodes(count)
    rounds = bandwidth.tournament(every)
    assert len(rounds) == count - 1 + count % 2
    assert undisturbed(rounds)
    wanted = [frozenset(pair) for pair in itertools.combinations((node.name for node in every), 2)]
    assert sorted(map(sorted, itertools.chain(*names(rounds)))) == sorted(map(sorted, wanted))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 64])
def test_a_ring_has_each_node_with_the_next(count: int) -> None:
    """A ring of any size takes two rounds, three where it is odd, and disturbs no node (C16)."""
    every = nodes(count)
    rounds = bandwidth.ring(every)
    assert len(rounds) == (1 if count == 2 else 2 + count % 2)
    assert undisturbed(rounds)
    wanted = {frozenset((f"node-{i}", f"node-{(i + 1) % count}")) for i in range(count)}
    measured = list(itertools.chain(*names(rounds)))
    assert set(measured) == wanted
    assert len(measured) == len(wanted)


def test_the_receivers_figure_counts() -> None:
    """What arrived is the speed, in Gbit/s, whatever the login shell printed first (C16, F29)."""
    document = {"end": {"sum_sent": {"bits_per_second": 9e9}, "sum_received": {"bits_per_second": 8.5e9}}}
    assert bandwidth.gbit_per_second("Welcome {you}\n" + json.dumps(document, indent=1)) == 8.5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{\n"error": "error - unable to connect to server: Connection refused"\n}', "unable to connect"),
        ("sh: 2: iperf3: not found\n", "iperf3: not found"),
        ("", "said nothing"),
        ('{\n"end": {}\n}', "no result"),
        ('{\n"end": {"sum_rec', "sum_rec"),
    ],
)
def test_no_figure_is_invented(text: str, reason: str) -> None:
    """Where iperf3 gives no result, its own words are the reason, and there is no number (C16)."""
    with pytest.raises(ValueError, match=reason):
        bandwidth.gbit_per_second(text)


ALL_REDUCE = """\
# nThread 1 nGpus 1 minBytes 8388608 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid   1201 on     node-0 device  0 [0x0f] NVIDIA H100
#  Rank  1 Group  0 Pid   1188 on     node-1 device  0 [0x0f] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     8388608       2097152     float     sum      -1    100.0   83.89   83.89      0    100.0   83.89   83.89      0
  1073741824     268435456     float     sum      -1   5461.0  196.62  368.66      0   5442.3  197.30  369.94      0
# Avg bus bandwidth    : 226.275
"""


def test_nccl_is_read_at_its_largest_message() -> None:
    """The bus bandwidth at 1 GiB counts, in Gbit/s of its GB/s (C16)."""
    assert bandwidth.bus_gbit_per_second(ALL_REDUCE, ranks=2) == pytest.approx(368.66 * 8)


@pytest.mark.parametrize(
    ("text", "ranks", "reason"),
    [(ALL_REDUCE, 16, "2 of 16 ranks"), ("no all_reduce_perf on the head: build it\n", 2, "build it"), ("", 2, "said")],
)
def test_nccl_programs_that_never_met_are_no_measure(text: str, ranks: int, reason: str) -> None:
    """Programs of too few ranks end well and measure nothing: that is told, as is a program that is missing (G33)."""
    with pytest.raises(ValueError, match=reason):
        bandwidth.bus_gbit_per_second(text, ranks)


def test_the_matrix_shows_what_was_measured_and_only_that() -> None:
    """A pair that wasn't measured has a dash, and counts in no median (C16)."""
    speeds = [
        Speed(source="node-0", target="node-1", private=2.0, physical=8.0),
        Speed(source="node-1", target="node-0", private=1.0, reasons=("node-0: no answer",)),
    ]
    columns, rows = bandwidth.matrix(speeds, ["node-0", "node-1"])
    assert columns[1:] == ("node-0", "node-1")
    assert rows == [("node-0", "", "2 / 8"), ("node-1", "1 / -", "")]
    said = bandwidth.summary(speeds)
    assert "slowest 1 from node-1 to node-0" in said
    assert "gives 25%" in said
    assert bandwidth.summary([Speed(source="a", target="b")]) == "nothing could be measured"


def test_a_firewall_is_opened_for_one_address_and_port_by_an_element_that_expires() -> None:
    """The physical measure adds one address and port with a time limit, and the private one opens nothing (X4)."""
    one, other = nodes(2)
    values = {"node": one, "client": other, "interface": "wg-runcrate", "sudo": "", "port": 20001, "seconds": 30}
    text = render("bandwidth/server.sh.j2", physical=True, open_seconds=15, **values)
    assert text.count("nft add") == 1
    assert '"{ $peer . 20001 timeout 15s }"' in text
    assert "nft" not in render("bandwidth/server.sh.j2", physical=False, open_seconds=15, **values)
