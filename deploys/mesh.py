"""The private network: WireGuard between all nodes, a firewall around it, and SSH inside it (C15, X4, F25).

Keys are made on their node. Then the nodes meet: public keys and packet sizes are collected, equal keys are refused,
and each node gets the configuration that needs all the others'.
"""

from __future__ import annotations

from pyinfra import host
from pyinfra.api.deploy import deploy
from pyinfra.operations import python

from runcrate_iac.model.kubernetes import POD_NETWORK, SERVICE_NETWORK, routed
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found
from runcrate_iac.provision.lease import armed
from runcrate_iac.provision.meet import Met, parse, refusals
from runcrate_iac.provision.names import named
from runcrate_iac.provision.remote import File, converge, converge_then_ask, know, put
from runcrate_iac.provision.trust import trusted
from runcrate_iac.render import render

_PACKAGES = ("wireguard-tools", "nftables", "iproute2", "iputils-ping", "openssh-client")
_UNITS = ("runcrate-firewall.service", "runcrate-mesh.service")
_USER_SPACE = "runcrate-wireguard-go.service"
"""What the mesh starts where the kernel has no WireGuard."""
_met: dict[int, Met] = {}


class CannotJoin(Exception):
    """The node can't be part of the cluster; the reason is among the findings."""


@deploy("Private network")
def mesh() -> None:
    """Join the current node to the private network, with its names, the firewall, and SSH between the nodes.

    Reads two more values of host data where the join arms a lease first: ``runcrate_cluster_id``, and the deadline
    ``runcrate_lease``, in seconds since the epoch.
    """
    here = cluster()
    python.call(name="names and keys", function=_meet, here=here)
    python.call(name="WireGuard, firewall, SSH", function=_configure, here=here)


def _users(here: Context) -> list[str]:
    return list(dict.fromkeys([here.node.machine.user, "root"]))


def _meet(here: Context) -> None:
    peers = [node.endpoint.rpartition(":")[0].strip("[]") for node in here.plan.nodes if node != here.node]
    values = {"node": here.node, "interface": here.plan.interface, "users": _users(here), "peers": peers}
    text = (
        armed(here, host.data.get("runcrate_cluster_id"), host.data.get("runcrate_lease"))
        + named(here)
        # The first step that installs packages, perhaps through a proxy whose authority is among these.
        + trusted(here.spec)
        + render("network/keys.sh.j2", packages=_PACKAGES, **values)
    )
    # One command: each costs every node a shell, and all of them the wait for the slowest.
    _met[here.node.index] = parse(converge_then_ask("names and keys", text, render("network/meet.sh.j2", **values)))


def _configure(here: Context) -> None:
    plan, node = here.plan, here.node
    wrong = [condition for condition in refusals(plan, _met) if condition.node == node.name]
    for condition in wrong:
        found(condition)
    if wrong:
        raise CannotJoin
    mine = _met[node.index]
    public_keys = {peer.name: _met[peer.index].wireguard for peer in plan.nodes}
    mtu = min(met.mtu for met in _met.values())
    values = {
        "plan": plan,
        "node": node,
        "mtu": mtu,
        "public_keys": public_keys,
        "ssh_ports": sorted({22, mine.ssh_port}),
        "peer_ssh_ports": {index: met.ssh_port for index, met in _met.items()},
        "routed": routed(here.spec.software, plan.nodes),
        "pod_network": POD_NETWORK,
        "service_network": SERVICE_NETWORK,
    }
    users = [
        {"name": account.name, "home": account.home, "authorized": _authorized(here, account.name)}
        for account in mine.accounts
    ]
    known_hosts = [f"{peer.name},{peer.address} {key}" for peer in plan.nodes for key in _met[peer.index].host_keys]
    wanted = [
        File(f"/etc/wireguard/{plan.interface}.conf", render("network/wireguard.conf.j2", **values), mode="600"),
        File("/usr/local/lib/runcrate/mesh", render("network/mesh.sh.j2", **values), mode="755"),
        File("/etc/runcrate/firewall.nft", render("network/firewall.nft.j2", **values)),
        File("/etc/ssh/ssh_config.d/runcrate.conf", render("network/ssh_config.j2", **values)),
        *(File(f"/etc/systemd/system/{unit}", render(f"network/{unit}")) for unit in _UNITS),
        File(f"/etc/systemd/system/{_USER_SPACE}", render(f"network/{_USER_SPACE}.j2", plan=plan)),
    ]
    blocks = [
        *(f"{user['home']}/.ssh/authorized_keys" for user in users),
        "/etc/ssh/ssh_known_hosts",
        "/etc/ssh/sshd_config.d/00-runcrate.conf",
    ]
    text = (
        know(*(file.path for file in wanted), *blocks)
        + "".join(put(file) for file in wanted)
        + render("network/configure.sh.j2", users=users, known_hosts=known_hosts, units=_UNITS, **values)
    )
    converge(name="WireGuard, firewall, SSH", text=text)


def _authorized(here: Context, user: str) -> list[str]:
    """Who may log in as ``user``: the same account of every node, and the spec's keys where it is the login user."""
    users_own = here.spec.ssh_public_keys if user == here.node.machine.user else ()
    nodes = [account.public_key for _, met in sorted(_met.items()) for account in met.accounts if account.name == user]
    return [*users_own, *nodes]
