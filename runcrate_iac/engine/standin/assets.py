"""Files that a command leaves behind, as Pulumi assets and archives (``assetPaths``, ``archivePaths``)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from runcrate_iac.engine.standin.values import ARCHIVE, ASSET, SIGNATURE, Values

_TOKEN = re.compile(r"\*\*|[*?{},]|\[!?[^]]+]|\\.|.", re.DOTALL)


def assets(directory: Path, patterns: Sequence[str]) -> Values:
    """The files under ``directory`` that the patterns select, in order: ``!`` takes out what came before."""
    rules = [(pattern.startswith("!"), _regex(pattern.removeprefix("!"))) for pattern in patterns]
    found = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        selected = False
        for excludes, regex in rules:
            if regex.fullmatch(name):
                selected = not excludes
        if selected and not path.is_dir():
            found[name] = _asset(path)
    return found


def archive(directory: Path, patterns: Sequence[str]) -> Values:
    """The same files as one archive."""
    members = assets(directory, patterns)
    digest = hashlib.sha256("".join(f"{name}\0{member['hash']}\0" for name, member in members.items()).encode())
    return {SIGNATURE: ARCHIVE, "hash": digest.hexdigest(), "assets": members}


def _asset(path: Path) -> Values:
    with path.open("rb") as file:
        return {SIGNATURE: ASSET, "hash": hashlib.file_digest(file, "sha256").hexdigest(), "path": str(path)}


def _regex(pattern: str) -> re.Pattern[str]:
    """A pattern in the syntax of github.com/gobwas/glob with ``/`` as the separator."""
    fixed = {"**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}
    depth = 0
    parts = []
    for token in _TOKEN.findall(pattern):
        depth += (token == "{") - (token == "}")  # noqa: S105 - a piece of a pattern
        if token == "," and depth:  # noqa: S105
            parts.append("|")
        elif token.startswith("[") and len(token) > 1:
            parts.append(token.replace("[!", "[^", 1))
        elif token.startswith("\\"):
            parts.append(re.escape(token[1:]))
        else:
            parts.append(fixed.get(token) or re.escape(token))
    return re.compile("".join(parts), re.DOTALL)
