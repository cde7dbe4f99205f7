"""The parts of the stand-ins that need no process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runcrate_iac.engine.standin import assets, plugins, values
from runcrate_iac.engine.standin.toolchain import Package, Toolchain, ToolchainError


def package(name: str, version: str = "1.2.3", plugin: dict[str, Any] | None = None) -> Package:
    """An installed distribution."""
    return Package(name, version, plugin, direct=True)


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        ("1.2.3", "v1.2.3"),
        ("1.2", "v1.2.0"),
        ("3.1.0a17", "v3.1.0-alpha.17"),
        ("3.1.0b2", "v3.1.0-beta.2"),
        ("3.1.0rc1", "v3.1.0-rc.1"),
        ("1.2.3.post4.dev5", "v1.2.3+post4dev5"),
    ],
)
def test_a_package_s_version_names_its_plugin_s(version: str, wanted: str) -> None:
    """A Python version becomes the semantic version that Pulumi gives the plugin."""
    (need,) = plugins.required([package("pulumi-aws", version)])
    assert (need.name, need.version, need.kind) == ("aws", wanted, "resource")


def test_only_packages_with_a_plugin_need_one() -> None:
    """A described plugin goes before the name; packages without one, and versions that are none, are left out."""
    described = {"resource": True, "name": "cloud", "version": "2.0.0", "server": "https://example.com"}
    found = plugins.required(
        [
            package("pulumi"),
            package("requests"),
            package("pulumi-policy"),
            package("pulumi-odd", "1!2.0"),
            package("pulumi-library", plugin={"resource": False}),
            package("their-cloud", plugin=described),
        ]
    )
    assert [(need.name, need.version, need.server) for need in found] == [("cloud", "v2.0.0", "https://example.com")]


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("*.txt", ["a.txt"], ["b/a.txt", "a_txt"]),
        ("**.txt", ["a.txt", "b/a.txt"], ["a.md"]),
        ("b/**", ["b/a.txt", "b/c/d"], ["a.txt"]),
        ("?.{txt,md}", ["a.txt", "a.md"], ["ab.txt", "a.rs"]),
        ("[!a].txt", ["b.txt"], ["a.txt"]),
        ("a,b", ["a,b"], ["a", "b"]),
        (r"\*", ["*"], ["a"]),
    ],
)
def test_globs_mean_what_they_mean_to_the_real_plugin(
    tmp_path: Path, pattern: str, matches: list[str], others: list[str]
) -> None:
    """One star stays inside a folder, two do not; braces, classes and escapes work."""
    for name in matches + others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(assets.assets(tmp_path, [pattern])) == sorted(matches)


def test_secrets_are_found_and_taken_off_at_any_depth() -> None:
    """A secret inside a list or a map counts, and its mark can be removed."""
    value = {"list": [{"deep": values.secret("x")}], "plain": 1}
    assert values.is_secret(value)
    assert values.without_secrets(value) == {"list": [{"deep": "x"}], "plain": 1}
    assert not values.is_secret(values.without_secrets(value))


def test_the_project_s_options_choose_its_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``virtualenv`` is relative to the project, a lock file names the toolchain, wrong options are refused."""
    monkeypatch.delenv("UV_PROJECT_ENVIRONMENT", raising=False)
    program = tmp_path / "main"
    program.mkdir()
    assert Toolchain.of(tmp_path, program, {"virtualenv": "venv"}).python == str(tmp_path / "venv/bin/python")
    assert Toolchain.of(tmp_path, program, {}).virtualenv is None
    (tmp_path / "uv.lock").touch()
    detected = Toolchain.of(tmp_path, program, {})
    assert (detected.tool, detected.virtualenv) == ("uv", tmp_path / ".venv")
    for wrong in ({"toolchain": "conda"}, {"typechecker": "pyre"}, {"virtualenv": 3}):
        with pytest.raises(ToolchainError):
            Toolchain.of(tmp_path, program, wrong)
