"""Files of an artifact directory on the nodes: only where a node's differ, checked there, a connection a node.

They go through the system's ssh and not through pyinfra's connection, which is Python's own and shares one processor
among all nodes. Compressed: programs shrink to less than half, and the way to the nodes is what takes the time. The
command is ``sh -s`` here too, whatever the login shell (F29).
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from pyinfra import host

from runcrate_iac.artifacts import store
from runcrate_iac.errors import SpecError
from runcrate_iac.model.artifacts import Artifact, Entry
from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.progress import Step
from runcrate_iac.provision.context import Context, cluster
from runcrate_iac.provision.findings import found, waiting
from runcrate_iac.provision.remote import ask, converge
from runcrate_iac.provision.waits import TYPES
from runcrate_iac.render import render

_READY = "--- runcrate-iac receives ---"
"""What templates/artifacts/receive.sh prints before it takes files."""
_CHUNK = 1 << 18
_TELL_SECONDS = 2.0
_WRONG_DIGEST = 3
"""The exit code of templates/artifacts/receive.sh where a checksum is wrong."""
_MB = 10**6


class NotPlaced(Exception):
    """A file could not be brought to the node; the reason is among the findings."""


def place(here: Context, wanted: Sequence[Artifact]) -> list[str]:
    """Make these files of the spec's artifact directory what is on the current node; the paths that differed.

    For a function that ``python.call`` runs. A file of the node keeps its content until the new one is whole there and
    its SHA-256 right. Raises :class:`NotPlaced` after noting the condition.
    """
    directory = Path(here.spec.artifacts or "")
    try:
        entries = store.read(directory).files
    except SpecError as error:
        raise _refused("ArtifactsUnusable", error.message, error.remedy) from None
    for one in wanted:
        if one.source not in entries:
            raise _refused("ArtifactMissing", f"{directory} has no {one.source}", "runcrate-iac artifacts --help")
    waiting(here.node.name, f"comparing {len(wanted)} files with those of {directory}")
    differing = _differing(wanted, entries)
    if differing:
        kept = " ".join(one.target for one in differing)
        converge(name="note what is there", text=f"keep file {kept}\n")
        _copy(here, directory, differing, entries)
    return [one.target for one in differing]


def _differing(wanted: Sequence[Artifact], entries: Mapping[str, Entry]) -> list[Artifact]:
    paths = " ".join(one.target for one in wanted) or "/dev/null"
    lines = set(ask(f"stat -c '%a %n' {paths} 2> /dev/null || :\nsha256sum {paths} 2> /dev/null || :\n"))
    return [
        one
        for one in wanted
        if not {f"{one.mode} {one.target}", f"{entries[one.source].sha256}  {one.target}"} <= lines
    ]


def _copy(here: Context, directory: Path, wanted: Sequence[Artifact], entries: Mapping[str, Entry]) -> None:
    node = here.node.name
    shell = ["sh", "-s"] if here.node.machine.user == "root" else ["sudo", "-n", "sh", "-s"]
    options = ["-C", "-F", host.data.ssh_config_file, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]
    command = ["ssh", *options, node, *shell]
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        waiting(node, f"asking for a connection to copy {len(wanted)} files")
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        # Where the pipe breaks, the exit code and the last line say why.
        with suppress(BrokenPipeError), process:
            assert process.stdin  # noqa: S101 - it was asked for
            assert process.stdout  # noqa: S101 - so was this
            process.stdin.write(render("artifacts/receive.sh").encode())
            process.stdin.flush()
            if any(line.rstrip() == _READY.encode() for line in iter(process.stdout.readline, b"")):
                _send(process.stdin, directory, wanted, entries, lambda what: waiting(node, what))
        process.wait()
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if process.returncode:
        altered = process.returncode == _WRONG_DIGEST
        fact = lines[-1] if lines else f"ssh ended with {process.returncode}"
        remedy = f"runcrate-iac artifacts verify {directory}" if altered else "see to it and run the step again"
        raise _refused("ArtifactAltered" if altered else "NotCopied", f"not copied: {fact}", remedy)


def _send(
    stream: IO[bytes],
    directory: Path,
    wanted: Sequence[Artifact],
    entries: Mapping[str, Entry],
    tell: Callable[[str], None],
) -> None:
    """Write what templates/artifacts/receive.sh reads, telling every two seconds how far it is."""
    total = sum(entries[one.source].bytes for one in wanted)
    sent, told = 0, time.monotonic()
    for one in wanted:
        entry = entries[one.source]
        stream.write(f"{entry.sha256} {entry.bytes} {one.mode} {one.target}\n".encode())
        left = entry.bytes
        with (directory / one.source).open("rb") as file:
            # Of a file that has grown or shrunk meanwhile the wrong bytes are sent, which the node finds out.
            while left and (chunk := file.read(min(_CHUNK, left))):
                stream.write(chunk)
                left -= len(chunk)
                sent += len(chunk)
                if time.monotonic() - told > _TELL_SECONDS:
                    told = time.monotonic()
                    tell(f"copying {Path(one.source).name}: {sent // _MB} of {total // _MB} MB")
        if left:
            return


def _refused(reason: str, message: str, remedy: str) -> NotPlaced:
    node = cluster().node.name
    kind = TYPES[Step.SOFTWARE]
    found(Condition(type=kind, status=Status.FALSE, reason=reason, message=message, remedy=remedy, node=node))
    return NotPlaced(message)
