"""Which Pulumi plugins a project's installed packages need."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pulumi.runtime.proto import plugin_pb2

from runcrate_iac.engine.standin.toolchain import Package

_WITHOUT_PLUGIN = {"pulumi-policy"}
_PEP440 = re.compile(
    r"(?P<release>\d+(?:\.\d+)*)(?:(?P<stage>a|b|rc)(?P<n>\d+))?(?P<post>\.post\d+)?(?P<dev>\.dev\d+)?"
)
_STAGES = {"a": "alpha", "b": "beta", "rc": "rc"}


def required(packages: Iterable[Package]) -> list[plugin_pb2.PackageDependency]:
    """The plugins to load: from ``pulumi-plugin.json`` where a package has one, else from its name and version."""
    return [need for package in packages if (need := _need(package))]


def _need(package: Package) -> plugin_pb2.PackageDependency | None:
    described = package.plugin or {}
    if package.plugin is None and not package.name.startswith("pulumi-"):
        return None
    if package.name in _WITHOUT_PLUGIN or not described.get("resource", package.plugin is None):
        return None
    version = described.get("version") or _semantic(package.version)
    if not version:
        return None
    need = plugin_pb2.PackageDependency(
        name=described.get("name") or package.name.removeprefix("pulumi-"),
        kind="resource",
        version=version if version.startswith("v") else f"v{version}",
        server=described.get("server", ""),
    )
    if base := described.get("parameterization"):
        need.parameterization.name = base["name"]
        need.parameterization.version = base["version"]
        need.parameterization.value = base["value"].encode()
    return need


def _semantic(version: str) -> str | None:
    """A PEP 440 version as a semantic one; None where there is no such."""
    match = _PEP440.fullmatch(version)
    if not match:
        return None
    release = match["release"].split(".")
    numbers = [*release, *["0"] * (3 - len(release))]
    stage = f"-{_STAGES[match['stage']]}.{match['n']}" if match["stage"] else ""
    build = "".join(part.removeprefix(".") for part in (match["post"], match["dev"]) if part)
    return ".".join(numbers) + stage + (f"+{build}" if build else "")
