"""One pyinfra run over all nodes at once: connect, prepare, run, judge by the results.

pyinfra's traps, measured with 3.10, that shape this file: hosts that fail are only an error with ``FAIL_PERCENT=0``;
``add_deploy`` prepares one host after the other, so each host prepares in a greenlet of its own; state is global to
the process, so a process does one run. Operations are numbered per host, so a deploy must call the same operations in
the same order on every node (``_if`` and ``differs=`` decide whether one does anything).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from pyinfra.api import Config, Inventory, State
from pyinfra.api.command import FunctionCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import Host
from pyinfra.api.operation import OperationMeta
from pyinfra.api.operations import run_ops
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_host, ctx_state

from runcrate_iac import paths
from runcrate_iac.model.conditions import Condition, Status, broken
from runcrate_iac.model.network import Node
from runcrate_iac.model.progress import Mark, Outcome, Step
from runcrate_iac.provision import connect, keepalive, ssh
from runcrate_iac.provision.busy import Busy
from runcrate_iac.provision.emit import Emitter
from runcrate_iac.provision.findings import collected, found, on_waiting
from runcrate_iac.provision.job import Job
from runcrate_iac.provision.remote import ConvergeCommand, differed
from runcrate_iac.provision.tell import LastWords, Tell
from runcrate_iac.provision.waits import TYPES, Waits

Deploy = Callable[[], Any]
_LOST = "look at its console log and at what its provider says of it; if it runs, at the network on the way"
_SEE_LOG = "correct what the message says and run the step again; the step's log has everything"


class Session:
    """All nodes of one cluster, for one step."""

    def __init__(self, job: Job, emitter: Emitter, waits: Waits, words: LastWords) -> None:
        """Nothing is connected yet."""
        self._job, self._emitter, self._waits, self._words = job, emitter, waits, words
        self._known_hosts = job.ssh_config.with_name("known_hosts")
        known = self._known_hosts.read_text()
        hosts = [(node.name, _data(job, node, known)) for node in job.plan.nodes if node.name not in job.absent]
        self._only_looks = job.step is Step.CHECK
        fail_percent = 100 if self._only_looks else 0
        config = Config(FAIL_PERCENT=fail_percent, CONNECT_TIMEOUT=connect.SESSION, PARALLEL=len(hosts))
        self._state = State(Inventory((hosts, {})), config, check_for_changes=False)
        self._tell = Tell(emitter, waits)
        self._state.add_callback_handler(self._tell)
        self._busy = Busy()
        on_waiting(self._wait)
        self.connected = False
        self.hopeless = Event()
        """Set once a node has failed for good, whatever the others still wait for (F16). Not by a check: it changes
        nothing, so that it looks at every node that it can."""

    def run(self, deploys: Sequence[Deploy]) -> Outcome:
        """Connect every node, run the deploys, and say how it ended."""
        try:
            self._connect()
            self.connected = True
            self._state.set_stage(StateStage.Prepare)
            self._everywhere(lambda host: self._prepare(host, deploys))
            self._state.set_stage(StateStage.Execute)
            run_ops(self._state)
        except PyinfraError as error:
            # What happened on the nodes has been noted already; this is only "too many hosts failed".
            self._blame(str(error))
        return self._judge()

    def _connect(self) -> None:
        def one(host: Host) -> None:
            node = self._node(host)
            new = self._job.step is Step.JOIN and node.index in self._job.new
            try:
                with gevent.Timeout(connect.LOOK if self._only_looks else None):
                    connect.connect(host, node, self._known_hosts, lambda what: self._wait(node.name, what), new=new)
            except connect.Refused as refused:
                self._fail(host, refused.reason, refused.message, refused.remedy)
                self._give_up()
            except gevent.Timeout:
                self._fail(host, "NoLogin", f"{self._waits.of(node.name)} after {connect.LOOK:.0f} s", _LOST)
            else:
                self._busy.watch(host)
                watched = connect.transport(host), lambda: self._silent(host), lambda: self._lost(host)
                gevent.spawn(keepalive.watch, *watched)
                self._state.activate_host(host)

        self._state.set_stage(StateStage.Connect)
        self._everywhere(one, hosts=list(self._state.inventory))

    def _prepare(self, host: Host, deploys: Sequence[Deploy]) -> None:
        self._wait(host.name, "reading its present state")
        with ctx_host.use(host):
            for deploy in deploys:
                deploy()

    def _everywhere(self, work: Callable[[Host], None], hosts: list[Host] | None = None) -> None:
        """``work`` on all hosts at once; every one gets to its end, then failures count."""
        with ctx_state.use(self._state):
            hosts = hosts or self._state.inventory.get_active_hosts()
            greenlets = {host: gevent.spawn(work, host) for host in hosts}
            gevent.joinall(list(greenlets.values()))
        for host, greenlet in greenlets.items():
            if greenlet.exception is not None:
                said = self._words.of(host.name) or repr(greenlet.exception)
                self._fail(host, "PreparationFailed", f"its present state can't be read: {said}", _SEE_LOG)
                self._state.active_hosts.discard(host)
        if self._only_looks and self._state.active_hosts:
            return
        if self._state.failed_hosts or broken(list(collected())):
            msg = "not every node got through"
            raise PyinfraError(msg)

    def _judge(self) -> Outcome:
        """How it ended, by the results and not by the return of ``run_ops``."""
        for host, results in self._state.results.items():
            if results.error_ops or host in self._state.failed_hosts:
                if not connect.transport(host).is_active():
                    self._lost(host)
                doing = self._tell.doing.get(host.name, "an operation")
                said = self._words.of(host.name) or "failed"
                self._fail(host, "OperationFailed", f"{doing}: {said}", _SEE_LOG)
        conditions = collected()
        changed = [
            _changes(host, data.operation_meta) for host, ops in self._state.ops.items() for data in ops.values()
        ]
        return Outcome(
            step=self._job.step,
            ok=not broken(list(conditions)),
            changed=any(changed),
            conditions=conditions,
            reached=self.connected,
            busy={name: round(seconds, 1) for name, seconds in self._busy.seconds.items()},
        )

    def _silent(self, host: Host) -> None:
        self._emitter.event(Mark.PROGRESS, f"has not answered for {keepalive.QUIET:.0f} s", host.name)

    def _lost(self, host: Host) -> None:
        """Note that a node stopped answering, and that nobody has to wait for it."""
        doing = self._tell.doing.get(host.name, "the wait for the other nodes")
        why = connect.transport(host).get_exception() or "it does not answer"
        self._fail(host, "ConnectionLost", f"the connection was lost during: {doing} ({why})", _LOST)
        self._give_up()

    def _give_up(self) -> None:
        if not self._only_looks:
            self.hopeless.set()

    def _blame(self, message: str) -> None:
        if not broken(list(collected())) and not self._state.failed_hosts:
            kind = TYPES[self._job.step]
            found(Condition(type=kind, status=Status.UNKNOWN, reason="RunFailed", message=message))

    def _fail(self, host: Host, reason: str, message: str, remedy: str) -> None:
        """Note the failure of a node, unless a better reason for it is noted already."""
        self._waits.done(host.name)
        if any(condition.node == host.name for condition in broken(list(collected()))):
            return
        kind = TYPES[self._job.step]
        condition = Condition(
            type=kind, status=Status.FALSE, reason=reason, message=message, remedy=remedy, node=host.name
        )
        found(condition)
        self._emitter.event(Mark.FAILED, message, host.name)

    def _wait(self, node: str, what: str) -> None:
        if self._waits.set(node, what):
            self._emitter.event(Mark.PROGRESS, what, node)

    def _node(self, host: Host) -> Node:
        index: int = host.data.runcrate_index
        return self._job.plan.nodes[index]


def _changes(host: Host, meta: OperationMeta) -> bool:
    """Whether an operation changed its host."""
    commands = [command for command in meta._commands or [] if not isinstance(command, FunctionCommand)]  # noqa: SLF001
    if not commands or not all(isinstance(command, ConvergeCommand) for command in commands):
        return bool(commands)
    changes = differed(meta.stdout_lines)
    if changes:
        host.log(f"changed: {', '.join(changes)}")
    return bool(changes)


def _data(job: Job, node: Node, known_hosts: str) -> dict[str, Any]:
    """The host data of one node. What stands in the ssh_config and pyinfra would read differently is given here."""
    machine = node.machine
    connection: dict[str, Any] = {
        "ssh_config_file": str(job.ssh_config),
        "ssh_known_hosts_file": str(job.ssh_config.with_name("known_hosts")),
        "ssh_strict_host_key_checking": "yes" if ssh.is_known(node, known_hosts) else "no",
        "ssh_paramiko_connect_kwargs": {"banner_timeout": connect.BANNER, "auth_timeout": connect.SESSION},
    }
    if machine.identity_file:
        path = Path(machine.identity_file).expanduser()
        if key := connect.agent_key(path):
            wanted = {"pkey": key, "key_filename": None, "allow_agent": False, "look_for_keys": False}
            connection["ssh_paramiko_connect_kwargs"] |= wanted
        else:
            connection["ssh_key"] = str(path)
    return {
        "runcrate_spec": job.spec,
        "runcrate_plan": job.plan,
        "runcrate_index": node.index,
        "runcrate_cluster_id": job.cluster_id,
        "runcrate_script": job.script,
        "runcrate_new": job.new,
        "runcrate_membership": job.membership,
        "runcrate_lease": job.deadline if job.arm and node.index in job.new else None,
        "_sudo": machine.user != "root",
        **connection,
    }


def load(name: str) -> Deploy:
    """The deploy ``module.function`` of ``deploys/``, loaded by path as pyinfra's own command line does.

    Raises :class:`FileNotFoundError` or :class:`AttributeError` where there is none.
    """
    module_name, function = name.split(".")
    path = paths.bundled("deploys") / f"{module_name}.py"
    spec = importlib.util.spec_from_file_location(f"runcrate_deploys_{module_name}", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    deploy: Deploy = getattr(module, function)
    return deploy
