"""Authorities that the spec names and the nodes trust: beside those of the distribution, and only as long as listed."""

from __future__ import annotations

import hashlib

from runcrate_iac.model.authority import each
from runcrate_iac.model.spec import ClusterSpec
from runcrate_iac.provision.remote import File, files
from runcrate_iac.render import render

FOLDER = "/usr/local/share/ca-certificates"
"""What update-ca-certificates(8) adds to the distribution's."""
_TELLING = 32
"""Characters of a base64 line that no other certificate has."""


def trusted(spec: ClusterSpec) -> str:
    """The shell text that makes a node trust these authorities, and none any more that an earlier spec named."""
    certificates = {
        f"{FOLDER}/runcrate-{hashlib.sha256(pem.encode()).hexdigest()[:12]}.crt": pem
        for pem in each(spec.ca_certificates)
    }
    wanted = files(*(File(path, pem) for path, pem in certificates.items())) if certificates else ""
    marks = [[line for line in pem.splitlines() if len(line) >= _TELLING][-1] for pem in certificates.values()]
    return wanted + render("network/trust.sh.j2", folder=FOLDER, paths=list(certificates), marks=marks)
