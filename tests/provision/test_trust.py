"""Authorities on a node: in a real shell, its files in a folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision.trust import FOLDER, trusted
from tests.provision.test_leave import ME, Here
from tests.spec.test_authority import made

UPDATE = """#!/bin/sh
# What Debian's update-ca-certificates does to the files that are looked at here.
cd {root}/etc/ssl/certs || exit 1
echo "$@" >> {root}/updated
[ "$1" != --fresh ] || rm -f *.pem
for file in {root}/usr/local/share/ca-certificates/*.crt; do
  [ ! -e "$file" ] || ln -sf "$file" "$(basename "$file" .crt).pem"
done
cat distribution *.pem > ca-certificates.crt 2> /dev/null || :
"""


class Node(Here):
    """A node with a distribution's certificates."""

    def __init__(self, root: Path) -> None:
        """It trusts the distribution's alone."""
        super().__init__(root)
        self.bundle = self.file("/etc/ssl/certs/ca-certificates.crt")
        self.file("/etc/ssl/certs/distribution").write_text("theirs\n")
        self.bundle.write_text("theirs\n")
        update = self.file("/usr/bin/update-ca-certificates")
        update.write_text(UPDATE.format(root=root))
        update.chmod(0o755)
        query = self.file("/usr/bin/dpkg-query")
        query.write_text("#!/bin/sh\necho installed:ca-certificates\n")
        query.chmod(0o755)

    def trust(self, *certificates: str) -> list[str]:
        """What the join does for a spec with these; how often the bundle was made anew since."""
        (self.root / "updated").unlink(missing_ok=True)
        text = trusted(ClusterSpec(name="demo", ca_certificates=certificates))
        self.shell(text.replace(" 644 root ", f" 644 {ME} "))
        updated = self.root / "updated"
        return updated.read_text().splitlines() if updated.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node."""
    return Node(tmp_path / "node")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """Two authorities."""
    return made(tmp_path, "one"), made(tmp_path, "two")


def test_a_node_trusts_what_is_listed_and_no_more(node: Node, pair: tuple[str, str]) -> None:
    """The bundle is made anew only where it differs; one that is not listed any more is gone from it."""
    one, two = pair
    assert node.trust() == []
    assert node.trust(one, two) == [""]
    assert node.bundle.read_text().count("BEGIN") == 2
    assert node.trust(one, two) == []
    assert node.trust(two) == ["--fresh"]
    assert node.bundle.read_text() == f"theirs\n{two}"
    assert node.trust() == ["--fresh"]
    assert node.bundle.read_text() == "theirs\n"


def test_what_broke_off_is_done_by_the_next_run(node: Node, pair: tuple[str, str]) -> None:
    """Files that are in place with a bundle that isn't, after an end at the wrong moment, are no reason to go on."""
    one, _ = pair
    node.trust(one)
    node.bundle.write_text("theirs\n")
    assert node.trust(one) == [""]
    for file in (node.root / FOLDER.removeprefix("/")).iterdir():
        file.unlink()
    assert node.trust() == ["--fresh"]
    assert node.bundle.read_text() == "theirs\n"


def test_leaving_forgets_them(node: Node, pair: tuple[str, str]) -> None:
    """A machine that leaves trusts what it trusted before the join, and the user's own authority stays (C22)."""
    own = node.file(f"{FOLDER}/own.crt")
    own.write_text(pair[1])
    node.trust(pair[0])
    assert "BEGIN" in node.bundle.read_text()
    left = node.leave("t-1")
    assert left.returncode == 0, left.stderr
    assert node.bundle.read_text() == f"theirs\n{pair[1]}"
    assert [file.name for file in own.parent.iterdir()] == ["own.crt"]
