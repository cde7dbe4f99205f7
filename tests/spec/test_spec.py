"""The spec: what a user may declare, and how a wrong one is told."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runcrate_iac.components.documents import spec_of
from runcrate_iac.errors import SpecError
from runcrate_iac.model.spec import ClusterSpec, parse
from runcrate_iac.model.versions import KUBERNETES, RAY
from runcrate_iac.specfile import load, read_document

GOOD: dict[str, Any] = {"name": "demo", "nodes": 2, "software": "slurm", "machine": {"gpu": "H100", "gpus": 8}}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJZ8M3vUu3mTn6xqj2cQ0gk1nXH2m2F9S9bq5t5bq7cB"


def refused(**fields: Any) -> str:
    """The message with which a good spec with these fields is refused."""
    with pytest.raises(SpecError) as error:
        parse({**GOOD, **fields})
    return error.value.message


def test_a_good_spec_is_taken_as_declared() -> None:
    """A spec with 2 nodes and Slurm is accepted (C1)."""
    assert parse(GOOD).nodes == 2


@pytest.mark.parametrize("nodes", [1, 0, -2, 65, 2.5, "many", None])
def test_a_cluster_has_2_to_64_nodes(nodes: object) -> None:
    """Any other number of nodes is refused, naming the field (C1)."""
    assert "nodes" in refused(nodes=nodes)


@pytest.mark.parametrize("gpus", [0, 3, 16, -1])
def test_machines_have_1_2_4_or_8_gpus(gpus: int) -> None:
    """Any other number of GPUs per machine is refused, naming the field (C3)."""
    assert "machine.gpus" in refused(machine={"gpus": gpus})


@pytest.mark.parametrize(
    "name", ["Demo", "my cluster", "a" * 64, "a;reboot", "$(id)", "-a", "a-", "", "demo\n", "1st", "a_b", 7]
)
def test_a_name_is_safe_everywhere(name: object) -> None:
    """A name with capitals, blanks, shell metacharacters or 64 characters is refused, naming the field (C2)."""
    assert "name" in refused(name=name)


def test_every_wrong_field_is_told_at_once() -> None:
    """A spec with several mistakes gets one line for each (C4)."""
    told = refused(nodes=1, software="pbs", colour="blue")
    assert all(field in told for field in ("nodes", "software", "colour"))


def test_unknown_software_is_told_what_there_is() -> None:
    """Unknown software is refused with the list (X3)."""
    assert "slurm" in refused(software="pbs")


@pytest.mark.parametrize(
    "asked",
    [
        {"software": "kubernetes-1.20"},
        {"software": {"kubernetes": "1.20"}},
        {"kubernetes_version": "1.20"},
        {"version": "9.9"},
    ],
)
def test_a_version_is_not_chosen(asked: dict[str, object]) -> None:
    """A version that is asked for is refused with those that there are, whether old, new or unknown (C6)."""
    assert f"Kubernetes {KUBERNETES}, Ray {RAY}" in refused(**asked)


def test_a_private_key_is_never_repeated() -> None:
    """A private key given as a public one is refused, and the message does not hold it (X4)."""
    told = refused(ssh_public_keys=["-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n"])
    assert "private key" in told
    assert "c2VjcmV0" not in told


@pytest.mark.parametrize(
    "key", ["", "ssh-ed25519", "ssh-ed25519 not-base64", "ssh-rsa " + KEY.split()[1], "hello world"]
)
def test_a_damaged_public_key_is_refused(key: str) -> None:
    """What is no OpenSSH public key is refused, naming the field (C2)."""
    assert "ssh_public_keys" in refused(ssh_public_keys=[key])


@pytest.mark.parametrize("text", [KEY + "\n", KEY + " me@host\r\n", f"  {KEY}  a comment with blanks "])
def test_a_public_key_is_normalised(text: str) -> None:
    """Newlines, CRLF and blanks in the comment do not matter (C2, F30)."""
    (key,) = parse({**GOOD, "ssh_public_keys": [text]}).ssh_public_keys
    assert key.split()[:2] == KEY.split()
    assert len(key.split()) <= 3


def test_the_same_key_twice_is_one_key() -> None:
    """The same public key under two comments counts once (F30)."""
    assert len(parse({**GOOD, "ssh_public_keys": [KEY + " a", KEY + " b"]}).ssh_public_keys) == 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_no_document_makes_a_traceback(document: object) -> None:
    """Any YAML document is a spec or a SpecError (C4)."""
    with suppress(SpecError):
        parse(document)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.none() | st.integers() | st.text() | st.lists(st.text()) for name in ClusterSpec.model_fields
        },
    )
)
def test_a_mutated_spec_is_told_by_field(changes: dict[str, object]) -> None:
    """A good spec with mutated fields is a spec, or an error that names one of them (C4)."""
    told = ""
    try:
        parse(GOOD | changes)
    except SpecError as error:
        told = error.message
    assert not told or any(field in told for field in changes)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    """A spec file that is not there is refused with its path (C4)."""
    with pytest.raises(SpecError, match=r"absent\.yaml"):
        load(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    "text", ["", "name: 2024-13-45", "just words", "- a\n- b", "name: [", "name: a\nname: b", "\x00", "a: &x [*x]"]
)
def test_a_malformed_file_is_told(tmp_path: Path, text: str) -> None:
    """A file that is no mapping of fields, or holds one twice, is refused with its path (C4)."""
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"cluster\.yaml"):
        load(path)


def test_a_key_may_be_named_by_its_file(tmp_path: Path) -> None:
    """A path among the public keys is read; one that can't be read is refused with the path (C2)."""
    (tmp_path / "k.pub").write_text(KEY + "\n")
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(GOOD | {"ssh_public_keys": [str(tmp_path / "k.pub")]}))
    assert read_document(path)["ssh_public_keys"] == [KEY + "\n"]
    (tmp_path / "k.pub").unlink()
    with pytest.raises(SpecError, match=r"k\.pub"):
        load(path)


@pytest.mark.parametrize("field", ["nodes", "join_timeout"])
def test_yes_is_no_number(field: str) -> None:
    """YAML's `yes` where a number belongs is refused, naming the field (C1)."""
    assert field in refused(**{field: True})


def test_paths_in_a_spec_file_are_beside_it(tmp_path: Path) -> None:
    """A relative path in a spec file means the file's own folder, wherever the steps run (C2)."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "k.pub").write_text(KEY)
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(GOOD | {"ssh_public_keys": ["./keys/k.pub"], "machine": {"image": "disk.qcow2"}}))
    document = read_document(path)
    assert document["ssh_public_keys"] == [KEY]
    assert document["machine"]["image"] == str(tmp_path / "disk.qcow2")


def test_paths_in_a_program_are_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`artifacts` and `setup` are relative to where the program runs, and ~ is the user's home in both (C22)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    for folder in (tmp_path, tmp_path / "home"):
        (folder / "setup.sh").write_text("true\n")
    beside = spec_of("demo", {"artifacts": "files", "setup": "setup.sh"})
    assert (beside.artifacts, beside.setup) == (f"{tmp_path}/files", f"{tmp_path}/setup.sh")
    at_home = spec_of("demo", {"artifacts": "~/files", "setup": "~/setup.sh"})
    assert (at_home.artifacts, at_home.setup) == (f"{tmp_path}/home/files", f"{tmp_path}/home/setup.sh")


@pytest.mark.parametrize("field", ["artifacts", "setup"])
@pytest.mark.parametrize("user", ["\0", "\ud800"])
def test_a_home_of_a_user_who_can_not_be_is_refused(field: str, user: str, tmp_path: Path) -> None:
    """A path that begins with ~ and a NUL, or half a character, is told by its field, in a file and in a program."""
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(GOOD | {field: f"~{user}/x"}))
    with pytest.raises(SpecError, match=field):
        load(path)
    with pytest.raises(SpecError, match=field):
        spec_of("demo", {field: f"~{user}/x"})


def test_what_is_no_plain_key_in_the_users_ssh_folder_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate beside the user's key does not stand in the way of a spec without keys (C2)."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").write_text(KEY + " me")
    (tmp_path / ".ssh" / "id_ed25519-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA me")
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    assert load(path).ssh_public_keys == (KEY + " me",)
