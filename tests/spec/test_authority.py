"""Certificates of authorities in a spec: taken, or refused with the reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runcrate_iac.errors import SpecError
from runcrate_iac.model.authority import each
from runcrate_iac.provision.trust import trusted
from runcrate_iac.specfile import load


def made(folder: Path, name: str = "site", *, authority: bool = True) -> str:
    """A new certificate's PEM text, which is in ``name.pem``; its key is in ``name.key``."""
    command = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name}"
    command += f" -addext basicConstraints=critical,CA:{str(authority).upper()} -keyout {name}.key -out {name}.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return (folder / f"{name}.pem").read_text()


def refused(folder: Path) -> str:
    """The error for a spec that names site.pem."""
    (folder / "cluster.yaml").write_text("name: demo\nca_certificates: [site.pem]\n")
    with pytest.raises(SpecError) as error:
        load(folder / "cluster.yaml")
    return str(error.value)


def test_files_are_read_beside_the_spec(tmp_path: Path) -> None:
    """Each file may have several certificates and words between them; each gets to the nodes once."""
    one, two = made(tmp_path, "one"), made(tmp_path, "two")
    (tmp_path / "bundle.pem").write_text(f"# ours\n{one.replace(chr(10), chr(13) + chr(10))}\n# theirs\n{two}")
    (tmp_path / "cluster.yaml").write_text("name: demo\nca_certificates: [bundle.pem, one.pem]\n")
    spec = load(tmp_path / "cluster.yaml")
    assert each(spec.ca_certificates) == (one, two)
    script = trusted(spec)
    assert (script.count(one), script.count(two)) == (1, 1)


def test_what_is_no_authority_is_refused(tmp_path: Path) -> None:
    """A missing file, a text, half a certificate, a server's own, a private key: none shows its content."""
    assert "ca_certificates.0" in refused(tmp_path)
    (tmp_path / "site.pem").write_text("secret words")
    assert "no certificate" in refused(tmp_path)
    good = made(tmp_path)
    lines = good.splitlines()
    (tmp_path / "site.pem").write_text("\n".join([lines[0], *lines[3:]]))
    assert "damaged" in refused(tmp_path)
    server = made(tmp_path, authority=False)
    assert "not an authority's" in refused(tmp_path)
    key = (tmp_path / "site.key").read_text()
    (tmp_path / "site.pem").write_text(server + key)
    said = refused(tmp_path)
    assert "private key" in said
    assert key.splitlines()[1] not in said


def test_without_authorities_a_node_is_only_cleaned(tmp_path: Path) -> None:
    """A spec that names none installs nothing and forgets those that an earlier one named."""
    (tmp_path / "cluster.yaml").write_text("name: demo\n")
    script = trusted(load(tmp_path / "cluster.yaml"))
    assert "packages" not in script
    assert "run rm -f" in script
