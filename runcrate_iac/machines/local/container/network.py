"""The network of a cluster's containers: a bridge in a network namespace of its own, a virtual cable to this computer.

The cable's end here is named after the cluster's subnet, so that the kernel itself gives a subnet to one cluster only.
With the namespace go the bridge and the cable.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from runcrate_iac.machines.local.process import NotStarted
from runcrate_iac.paths import machines_dir, write_atomic

POOL = IPv4Network("198.18.0.0/15")
"""For networks within a test bed, never routed (RFC 2544, RFC 6890)."""
SUBNETS = tuple(POOL.subnets(new_prefix=25))
FIRST_NODE = 10
_NAMESPACES = Path("/run/netns")


def namespace(cluster_id: str) -> str:
    """The name of the cluster's network namespace (ip-netns(8))."""
    return f"runcrate-{cluster_id}"


def address(subnet: IPv4Network, index: int) -> IPv4Address:
    """The node's address; this computer has the subnet's first one."""
    return subnet[FIRST_NODE + index]


def exists(cluster_id: str) -> bool:
    """Whether the cluster has, or had, machines of this kind."""
    return _file(cluster_id).exists()


def ensure(cluster_id: str) -> IPv4Network:
    """The cluster's subnet, its network made where it is missing, after a reboot of this computer too.

    Raises :class:`NotStarted` where that fails.
    """
    file, name = _file(cluster_id), namespace(cluster_id)
    known = file.read_text().strip() if file.exists() else ""
    if known and (_NAMESPACES / name).exists():
        return SUBNETS[int(known)]
    write_atomic(file, "")  # what follows may be cut short
    remove(cluster_id)
    _run("ip", "netns", "add", name)
    number = _claim(cluster_id)
    _run("ip", "-n", name, "-batch", "-", text=_INSIDE)
    here = f"{SUBNETS[number][1]}/{SUBNETS[number].prefixlen}"
    _run("ip", "-batch", "-", text=f"address add {here} dev {_cable(number)}\nlink set {_cable(number)} up\n")
    write_atomic(file, f"{number}\n")
    return SUBNETS[number]


def remove(cluster_id: str) -> None:
    """Remove the namespace with all that is in it; no such namespace is no error."""
    if (_NAMESPACES / namespace(cluster_id)).exists():
        _run("ip", "netns", "delete", namespace(cluster_id))


_INSIDE = """\
link add lan type bridge
link set host master lan
link set host up
link set lan up
"""


def _claim(cluster_id: str) -> int:
    """Lay the cable under the first name that nobody has, for a subnet to which this computer has no other way."""
    taken = list(_routes())
    for step in range(len(SUBNETS)):
        number = (_start(cluster_id) + step) % len(SUBNETS)
        if any(SUBNETS[number].overlaps(route) for route in taken):
            continue
        cable = ("type", "veth", "peer", "name", "host", "netns", namespace(cluster_id))
        try:
            _run("ip", "link", "add", _cable(number), *cable)
        except NotStarted as error:
            if "File exists" not in str(error):
                raise
        else:
            return number
    raise NotStarted(f"this computer has routes to all of {POOL}, where container machines have their addresses")


def _start(cluster_id: str) -> int:
    return int.from_bytes(hashlib.sha256(cluster_id.encode()).digest()[:8], "big") % len(SUBNETS)


def _cable(number: int) -> str:
    return f"runcrate{number}"


def _file(cluster_id: str) -> Path:
    return machines_dir(cluster_id) / "subnet"


def _routes() -> Iterator[IPv4Network]:
    for route in json.loads(_run("ip", "-json", "-4", "route", "show", "table", "all")):
        if route["dst"] != "default":
            yield IPv4Network(route["dst"])


def _run(*words: str, text: str = "") -> str:
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotStarted(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
