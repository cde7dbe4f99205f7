"""Reading a spec file, and the user's own ssh keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from runcrate_iac.errors import SpecError
from runcrate_iac.model.keys import normalise
from runcrate_iac.model.spec import ClusterSpec, parse
from runcrate_iac.paths import home

MOST_BYTES = 256 * 1024
"""A spec of 64 machines with a key for each is a tenth of that; a longer one is read for minutes."""
MOST_KEY_BYTES = 64 * 1024


def read_document(path: Path | str) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises :class:`SpecError` where it is missing, unreadable, not YAML or no mapping.
    """
    path = Path(path)
    document = _read_yaml(path, "name a spec file, for example cluster.yaml")
    if not isinstance(document, dict):
        raise SpecError(f"{path}: must be a mapping of fields such as `name: demo`")
    keys = document.get("ssh_public_keys")
    if isinstance(keys, list):
        document["ssh_public_keys"] = [_key_text(path.parent, number, key) for number, key in enumerate(keys)]
    authorities = document.get("ca_certificates")
    if isinstance(authorities, list):
        document["ca_certificates"] = [_certificate(path.parent, *entry) for entry in enumerate(authorities)]
    if isinstance(document.get("artifacts"), str):
        document["artifacts"] = str(_beside(path.parent, document["artifacts"]))
    machine = document.get("machine")
    if isinstance(machine, dict) and isinstance(machine.get("image"), str):
        machine["image"] = str(_beside(path.parent, machine["image"]))
    if isinstance(document.get("setup"), str):
        document["setup"] = str(_beside(path.parent, document["setup"]))
    if isinstance(document.get("faults"), str):
        what = "`faults` is a list, or the path of a YAML file with one"
        document["faults"] = _read_yaml(_beside(path.parent, document["faults"]), what)
    return document


def _read_yaml(path: Path, remedy: str) -> Any:
    try:
        text = _text(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: {getattr(error, 'strerror', None) or error}", remedy) from None
    try:
        return yaml.load(text, Loader=_OneOfEach)  # noqa: S506
    except Exception as error:  # noqa: BLE001 - of a value that its tag does not fit PyYAML raises nearly anything
        fact = (
            " ".join(str(error).split()) if isinstance(error, yaml.YAMLError | ValueError) else "a value's tag is wrong"
        )
        raise SpecError(f"{path}: not readable as YAML: {fact}") from None


def read_spec(path: Path | str, **overrides: Any) -> dict[str, Any]:
    """A spec file as arguments of :class:`~runcrate_iac.Cluster`; overrides that are None count as not given."""
    document = read_document(path) | {key: value for key, value in overrides.items() if value is not None}
    parse(document, str(path))
    return document


def load(path: Path | str, **overrides: Any) -> ClusterSpec:
    """The spec in a YAML file, with the user's own ssh keys where it names none; overrides as in :func:`read_spec`."""
    spec = with_user_keys(parse(read_spec(path, **overrides), str(path)))
    script_of(spec)
    return spec


def script_of(spec: ClusterSpec) -> str | None:
    """The text of the set-up script as it is now, with a line break at its end; None where the spec has none.

    Raises :class:`SpecError` where it can't be read or can't run, never with what is in it.
    """
    if spec.setup is None:
        return None
    try:
        # A pipe would be waited for, and read once only, where each step reads the script.
        if not stat.S_ISREG(Path(spec.setup).stat().st_mode):
            raise SpecError(f"setup: {spec.setup}: it is not a file", "name a script, such as ./setup.sh")
        text = _text(Path(spec.setup), MOST_BYTES)
    except UnicodeDecodeError:
        raise SpecError(f"setup: {spec.setup}: it is not text", "name a script, such as ./setup.sh") from None
    except (OSError, ValueError) as error:
        fact = getattr(error, "strerror", None) or error
        raise SpecError(f"setup: {spec.setup}: {fact}", "name a script, such as ./setup.sh") from None
    if not text.strip() or "\0" in text:
        raise SpecError(f"setup: {spec.setup}: it is {'not text' if text.strip() else 'empty'}", "name a script")
    for number, line in enumerate(text.split("\n"), 1):
        if line.endswith("\r"):  # to the shell a part of the line's last word
            raise SpecError(f"setup: {spec.setup}: line {number} has the line end of Windows", f"dos2unix {spec.setup}")
    return text if text.endswith("\n") else text + "\n"


def absolute(path: str) -> str:
    """A path of a program's arguments: relative to where it runs."""
    return str(_beside(Path.cwd(), path))


def with_user_keys(spec: ClusterSpec) -> ClusterSpec:
    """The spec with the public keys in the user's ``~/.ssh`` where it names none."""
    if spec.ssh_public_keys:
        return spec
    keys = []
    for file in sorted((home() / ".ssh").glob("id_*.pub")):
        with suppress(OSError, ValueError):  # a certificate, or an old kind of key: not what was asked for by name
            keys.append(normalise(file.read_text(encoding="utf-8", errors="replace")))
    return parse(spec.model_dump() | {"ssh_public_keys": keys}, "~/.ssh") if keys else spec


def _key_text(folder: Path, number: int, key: Any) -> Any:
    """The key itself, or what is in the file that is named instead of it."""
    if not isinstance(key, str) or not key.startswith(("/", "~", "./", "../")) or "\n" in key:
        return key
    try:
        return _text(_beside(folder, key), MOST_KEY_BYTES, errors="replace")
    except (OSError, ValueError, RuntimeError) as error:
        raise SpecError(f"ssh_public_keys.{number}: {key}: {getattr(error, 'strerror', None) or error}") from None


def _certificate(folder: Path, number: int, name: Any) -> Any:
    """What is in the PEM file of that name, or the PEM text itself."""
    if not isinstance(name, str) or "\n" in name.strip():
        return name
    try:
        return _text(_beside(folder, name), MOST_BYTES, errors="replace")
    except (OSError, ValueError, RuntimeError) as error:
        raise SpecError(f"ca_certificates.{number}: {name}: {getattr(error, 'strerror', None) or error}") from None


def _text(path: Path, most: int, errors: str = "strict") -> str:
    """The text of a file that may be a device, or anything else that never ends."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        msg = f"it has more than {most} bytes"
        raise ValueError(msg)
    return content.decode("utf-8-sig", errors)


def _beside(folder: Path, name: str) -> Path:
    """The path that a spec file names: relative to the file, since steps run in folders of their own."""
    with suppress(ValueError):  # a user whose name is none; what the path is for says so
        name = os.path.expanduser(name)  # noqa: PTH111 - leaves an unknown user's ~ as it is
    return (folder / name).absolute()


class _OneOfEach(yaml.SafeLoader):
    """YAML in which a field given twice is an error and not silently the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the field {key!r} is given twice", node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep)
