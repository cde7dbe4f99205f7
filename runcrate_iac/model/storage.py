"""Where the nodes keep what is common to them."""

from __future__ import annotations

from runcrate_iac.model.spec import Kind, MachineSpec


def has_shared_folder(machine: MachineSpec) -> bool:
    """Whether all nodes have /shared; container machines have just their own disks (C21)."""
    return machine.kind is not Kind.CONTAINER


def hostfile(machine: MachineSpec) -> str:
    """The path of the hostfile: one for all nodes, or a copy on each node's own disk."""
    return "/shared/hostfile" if has_shared_folder(machine) else "/etc/runcrate/hostfile"
