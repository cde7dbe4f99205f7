"""Whatever is declared, it is a spec or an error that names the field: no traceback, no endless wait."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runcrate_iac.components.documents import machines_document, pool_of, spec_of
from runcrate_iac.errors import SpecError
from runcrate_iac.model.spec import ClusterSpec, MachineSpec, parse
from runcrate_iac.specfile import load

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJZ8M3vUu3mTn6xqj2cQ0gk1nXH2m2F9S9bq5t5bq7cB"
GOOD: dict[str, Any] = {
    "name": "demo",
    "nodes": 2,
    "software": "slurm",
    "provider": "local",
    "machine": {"kind": "vm", "gpu": "H100", "gpus": 8, "cpus": 1, "memory": "2GiB", "disk": 2**33, "image": "a.qcow2"},
    "ssh_public_keys": [KEY],
    "notify": ["me@example.org"],
    "join_timeout": 600,
    "faults": [{"fault": "slow", "call": "create", "node": "node-1", "times": 2, "seconds": 3}, {"fault": "lie"}],
}
GIVEN = {"address": "192.0.2.1", "port": 22, "user": "root", "host_key": KEY, "identity_file": "/k", "endpoint": "h"}
HERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

ODD: tuple[Any, ...] = (
    *(
        "1e999GiB",
        "-1GiB",
        "0x10",
        "9" * 5000,
        "9" * 300 + "GiB",
        "1_000",
        "٣",
        "８",
        "yes",
        "null",
        "~",
        ".inf",
        "2GiB ",
    ),
    *("demo\n", "a\x00b", "\x1b[31m", "\ufeffdemo", "\u202edemo", "\ud800", "a" * 5000, "$(reboot)", "../../etc"),
    *(10**400, 0x10**5000, -(2**63), 2**64, 1e300, float("nan"), float("inf"), 2.5, -0.0, b"2", True, False, None),
    *(["a", ["b"]], [], {}, {"a": {"b": {}}}, {1: 2}, {None: 1}, {("a", 1): 2}, (1,), {1, 2}, object()),
)
odd = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4),
    max_leaves=8,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every field and item in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in [(*path, key), *places(item, (*path, key))]]


@st.composite
def mutated(draw: st.DrawFn, good: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A good document with one thing wrong, and the path of that; empty where it has a name that is none."""
    document = copy.deepcopy(good)
    *outer, last = draw(st.sampled_from(places(good)))
    spot: Any = document
    for step in outer:
        spot = spot[step]
    match draw(st.sampled_from(["replace", "remove", "add"])):
        case "remove":
            del spot[last]
        case "add" if isinstance(spot, dict):
            last = draw(st.text(min_size=1).filter(lambda text: text not in spot))
            spot[last] = draw(odd)
        case _:
            spot[last] = draw(odd)
    steps = [str(step) for step in [*outer, last]]
    return document, ".".join(steps) if all(re.fullmatch(r"[\w-]{1,60}", step) for step in steps) else ""


def refusal(work: Callable[[], object]) -> list[str]:
    """The lines of the error with which this ends, in seconds; none where it ends well."""
    begun = time.monotonic()
    lines: list[str] = []
    try:
        work()
    except SpecError as error:
        lines = error.message.splitlines()
    assert time.monotonic() - begun < 5
    return lines


def told(document: Any) -> list[str]:
    """The lines with which this document is refused; none where it is a spec."""
    return refusal(lambda: parse(document))


def fields(lines: list[str]) -> list[str]:
    """The path that each line names; every line has one, and can be printed."""
    found = [re.match(r"spec: (?P<path>[^:]*(:[^ ][^:]*)*): .", line) for line in lines]
    assert all(found), lines
    assert all(line.isprintable() and len(line) < 600 for line in lines), lines
    return [match["path"] for match in found if match]


@HERE
@given(mutated(GOOD))
def test_one_wrong_field_is_named_by_its_path(wrong: tuple[dict[str, Any], str]) -> None:
    """A good spec with one field replaced, removed or added is a spec, or refused with that field's path (C4)."""
    document, path = wrong
    paths = fields(told(document))
    # What is wrong inside a value is named further in; a name that is none is quoted.
    assert all(found.startswith(path) for found in paths) if path else len(paths) <= 1


@HERE
@given(st.dictionaries(st.sampled_from([*ClusterSpec.model_fields, "colour"]) | st.text(), odd, max_size=10))
def test_every_wrong_field_is_named(document: dict[str, Any]) -> None:
    """A document of odd values is a spec, or refused with a line for each wrong field and for no other (C4)."""
    lines = told(document)
    names = {path.partition(".")[0] for path in fields(lines)}
    plain = {name for name in names if re.fullmatch(r"\w+", name)}
    assert plain <= {*document, "name"}
    assert bool(lines) or "name" in document


@HERE
@given(st.dictionaries(st.sampled_from([*MachineSpec.model_fields, "colour"]), odd, min_size=1))
def test_every_wrong_field_of_a_machine_is_named(machine: dict[str, Any]) -> None:
    """What is wrong with the machine's shape is named under `machine.` (C4)."""
    assert all(re.match(r"machine\.(\w+)$", path) for path in fields(told(GOOD | {"machine": machine})))


@HERE
@given(odd)
def test_what_is_no_document_is_told(document: Any) -> None:
    """A value that is no mapping of fields is refused as such (C4)."""
    assert told(document)


@HERE
@given(wrong=mutated({**GOOD, "machines": [dict(GIVEN), dict(GIVEN, address="h2")]}))
def test_a_programs_arguments_are_told_alike(wrong: tuple[dict[str, Any], str]) -> None:
    """A component's arguments with one thing wrong are taken, or refused with the same paths (C4)."""
    document, path = wrong
    name = document.pop("name", None)
    arguments = document | ({"cluster_name": name} if name else {})
    lines = refusal(lambda: machines_document(spec_of("demo", arguments), "o/p/s", document.get("machines")))
    assert all(line.startswith("Cluster demo: ") and line.isprintable() for line in lines)
    named = path.removesuffix(".0").removesuffix(".1")  # of a machine that is missing, the list is told
    assert all(named in line for line in lines)


@HERE
@given(odd, odd)
def test_a_pools_arguments_are_told_alike(nodes: Any, machine: Any) -> None:
    """A pool's arguments are taken, or refused naming the field (C4)."""
    lines = refusal(lambda: pool_of("demo", "o/p/s", {"nodes": nodes, "machine": machine}))
    assert all(re.match(r"pool demo: (nodes|machine)", line) for line in lines)


LINES = yaml.safe_dump(GOOD).splitlines()
CHUNKS = (
    *("\t", "\x00", "\x1b", "\r\n", "\ufeff", "&a ", "*a", "<<: *a", "!!int ''", "!!bool maybe", "!!timestamp x"),
    *(
        "!!python/object:os.system {}",
        "{",
        "[",
        "}",
        "- ",
        "? ",
        ": ",
        "--- ",
        "...",
        "|\n",
        ">\n",
        "%YAML 9.9\n",
        "'",
        '"',
    ),
    *(
        "name: demo\n",
        "nodes: 3\n",
        "!!set {a, b}",
        "!!binary é",
        "!!float x",
        "2026-13-45",
        "0x" + "f" * 5000,
        "1:" * 99,
    ),
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """The text of a good spec with pieces put in, lines twice or gone, or with bytes that are no text."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        column = draw(st.integers(0, len(lines[at])))
        match draw(st.sampled_from(["chunk", "text", "twice", "gone"])):
            case "chunk":
                lines[at] = lines[at][:column] + draw(st.sampled_from(CHUNKS)) + lines[at][column:]
            case "text":
                lines[at] = lines[at][:column] + draw(st.text(max_size=9)) + lines[at][column:]
            case "twice":
                lines.insert(at, lines[at])
            case "gone" if len(lines) > 1:
                del lines[at]
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines).encode("utf-8", "surrogatepass")
    return draw(st.sampled_from([text, text, text, b"\xef\xbb\xbf" + text, text[: len(text) // 2], b"\xff" + text]))


@HERE
@given(texts() | st.binary(max_size=200))
def test_any_file_is_a_spec_or_told(tmp_path: Path, content: bytes) -> None:
    """A file with any bytes is a spec, or refused with its path (C4)."""
    path = tmp_path / "cluster.yaml"
    path.write_bytes(content)
    lines = refusal(lambda: load(path))
    assert all("cluster.yaml: " in line or line.startswith("ssh_public_keys.") for line in lines)


BOMBS = {
    "aliases": "\n".join(
        ["a: &a [x,x]", *(f"{c}: &{c} [{f'*{b},' * 9}]" for b, c in zip("abcdefgh", "bcdefghi", strict=True))]
    ),
    "itself": "a: &a {b: *a}",
    "itself in a field": "machine: &m {image: *m}",
    "brackets": "[" * 100_000,
    "mappings": "{a: " * 10_000,
    "lists": "- " * 50_000,
    "keys": "? " * 20_000,
    "string": "'" + "a" * 200_000,
    "fields": "\n".join(f"k{number}: 1" for number in range(20_000)),
    "bytes": "x" * 300_000,
    "digits": "name: demo\nnodes: " + "9" * 200_000,
    "hexadecimal digits": "name: demo\nnodes: 0x" + "f" * 200_000,
}


@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_told_in_seconds(tmp_path: Path, content: str) -> None:
    """Aliases of aliases, thousands of brackets or fields, and endless numbers are refused in seconds (C4)."""
    path = tmp_path / "cluster.yaml"
    path.write_text(content)
    begun = time.monotonic()
    with pytest.raises(SpecError, match=r"cluster\.yaml") as error:
        load(path)
    assert time.monotonic() - begun < 10
    assert len(error.value.message.splitlines()[0]) < 1000


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/proc/self/mem", "/"])
def test_a_device_is_no_spec_and_no_key(device: str, tmp_path: Path) -> None:
    """What never ends, or is no file, is refused at once, as a spec and as a key's file (C4)."""
    with pytest.raises(SpecError, match=device):
        load(device)
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(GOOD | {"ssh_public_keys": [device]}))
    with pytest.raises(SpecError, match=r"ssh_public_keys\.0"):
        load(path)
