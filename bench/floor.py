"""The floor: what the nodes themselves have to do, as one raw shell command per step over connections that are open.

A child process of ``join.py``: machines as JSON on standard input; on standard output, as JSON, when each step began.
The result on the nodes is what our join leaves, from the same templates, without a look at what is there, a preflight,
a lease, or a way back. The next step begins when the slowest node is done, since nodes need one another's keys.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402 - gevent patches before anything else is imported
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
from pyinfra.api import Config, Inventory, State, StringCommand  # noqa: E402
from pyinfra.api.connect import connect_all  # noqa: E402
from pyinfra.api.host import Host  # noqa: E402

from runcrate_iac.model import network  # noqa: E402
from runcrate_iac.model.network import NetworkPlan, Node  # noqa: E402
from runcrate_iac.provision import ssh  # noqa: E402
from runcrate_iac.provision.meet import Met, parse  # noqa: E402
from runcrate_iac.provision.reach import following  # noqa: E402
from runcrate_iac.render import render  # noqa: E402

_KEYS = """\
umask 077
mkdir -p /etc/wireguard
wg genkey > /etc/wireguard/{interface}.key
ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_runcrate
echo "wireguard $(wg pubkey < /etc/wireguard/{interface}.key)"
echo "user root /root $(cat /root/.ssh/id_runcrate.pub)"
echo "host $(cat /etc/ssh/ssh_host_ed25519_key.pub)"
"""
_UNITS = ("runcrate-firewall.service", "runcrate-mesh.service")


class Floor:
    """The connections, and what the nodes told."""

    def __init__(self, plan: NetworkPlan) -> None:
        """Nothing is connected yet."""
        self.plan, self.begun = plan, dict[str, float]()
        self.met: dict[int, Met] = {}
        config = ssh.write("floor", plan)
        data: dict[str, Any] = {
            "ssh_config_file": str(config),
            "ssh_known_hosts_file": str(config.with_name("known_hosts")),
        }
        hosts = [(node.name, data | {"ssh_key": node.machine.identity_file}) for node in plan.nodes]
        self.state = State(Inventory((hosts, {})), Config(FAIL_PERCENT=0, PARALLEL=len(hosts)))

    def run(self) -> None:
        """Every step, on all nodes at once."""
        self.begun["connect"] = time.time()
        connect_all(self.state)
        for node, lines in self.step("keys", lambda node: _KEYS.format(interface=self.plan.interface)).items():  # noqa: ARG005
            self.met[node.index] = parse(lines)
        self.step("mesh", self.mesh)
        reached = self.step("reach", self.reach)
        if missing := {node.name: lines for node, lines in reached.items() if len(lines) != len(self.plan.nodes)}:
            sys.exit(f"not all pairs: {missing}")

    def step(self, name: str, text: Callable[[Node], str]) -> dict[Node, list[str]]:
        """The output of a command per node."""
        self.begun[name], said = time.time(), dict[Node, list[str]]()

        def one(host: Host, node: Node) -> None:
            done, output = host.run_shell_command(StringCommand("sh -s"), _stdin=text(node))
            if not done:
                sys.exit(f"{node.name}: {name}: {output}")
            said[node] = output.stdout_lines

        hosts = [self.state.inventory.get_host(node.name) for node in self.plan.nodes]
        gevent.joinall(
            [gevent.spawn(one, *both) for both in zip(hosts, self.plan.nodes, strict=True)], raise_error=True
        )
        return said

    def mesh(self, node: Node) -> str:
        """Names, WireGuard, firewall and SSH of one node."""
        plan = self.plan
        keys = {peer.name: self.met[peer.index].wireguard for peer in plan.nodes}
        values = {"plan": plan, "node": node, "mtu": 1420, "public_keys": keys, "ssh_ports": [22], "routed": {}}
        values["peer_ssh_ports"] = dict.fromkeys(range(len(plan.nodes)), 22)
        known = "".join(f"{peer.name},{peer.address} {self.met[peer.index].host_keys[0]}\n" for peer in plan.nodes)
        accounts = "".join(f"{self.met[peer.index].accounts[0].public_key}\n" for peer in plan.nodes)
        units = "/etc/systemd/system"
        files = {
            "/usr/local/lib/runcrate/names": render("network/names.sh.j2", **values),
            f"/etc/wireguard/{plan.interface}.conf": render("network/wireguard.conf.j2", **values),
            "/usr/local/lib/runcrate/mesh": render("network/mesh.sh.j2", **values),
            "/etc/runcrate/firewall.nft": render("network/firewall.nft.j2", **values),
            "/etc/ssh/ssh_config.d/runcrate.conf": render("network/ssh_config.j2", **values),
            "/etc/ssh/ssh_known_hosts": known,
            **{f"{units}/{unit}": render(f"network/{unit}") for unit in _UNITS},
            f"{units}/runcrate-wireguard-go.service": render("network/runcrate-wireguard-go.service.j2", plan=plan),
        }
        return "".join(
            [
                "umask 022; mkdir -p /usr/local/lib/runcrate /etc/runcrate /etc/ssh/ssh_config.d\n",
                *(f"cat > {path} << 'END'\n{text}END\n" for path, text in files.items()),
                f"cat >> /root/.ssh/authorized_keys << 'END'\n{accounts}END\n",
                "chmod 755 /usr/local/lib/runcrate/*\n",
                ": > /run/runcrate-meeting\n",
                f"systemctl enable --quiet --now {' '.join(_UNITS)}\n",
                "rm /run/runcrate-meeting\n",
            ]
        )

    def reach(self, node: Node) -> str:
        """Print what it reaches; the pings are those of the join, since one process a pair is slower."""
        peers = " ".join(f"{peer.name}={peer.address}" for peer in self.plan.nodes if peer != node)
        return (
            "/usr/local/lib/runcrate/mesh begin\n"
            f"perl - {self.plan.interface} 1420 45 {node.address} {peers} << 'END'\n{render('network/ping.pl')}END\n"
            f"/usr/local/lib/runcrate/mesh keep\nssh -o BatchMode=yes {following(self.plan, node).name} echo ssh\n"
        )


if __name__ == "__main__":
    floor = Floor(network.plan([network.Machine.model_validate(one) for one in json.load(sys.stdin)]))
    floor.run()
    json.dump(list(floor.begun.items()), sys.stdout)
