"""Which Pulumi is taken: the user's, the downloaded one or the one built here, and what is put beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import metadata, resources
from pathlib import Path

import pytest

from runcrate_iac.engine import gobuild, gomodule, launchers, official, versions
from runcrate_iac.engine.install import Engine, Source, find, install
from runcrate_iac.errors import Failed, ToolMissing
from runcrate_iac.model.progress import Report


def quiet(_message: str, _node: str | None) -> None:
    """Report to nobody."""


def executable(file: Path, text: str = "") -> None:
    """Put a shell script in place."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


class Computer:
    """What the ladder finds: PATH, caches, the network and Go, all in a temporary folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is installed, and no download is in reach."""
        self.folder = folder
        self.home = folder / "pulumi-home"
        self.cache = folder / "cache/runcrate-iac/engine"
        self.done: list[str] = []
        self.online = False
        monkeypatch.setenv("PATH", f"{folder}/usr/bin{os.pathsep}/usr/bin{os.pathsep}/bin")
        monkeypatch.setenv("PULUMI_HOME", str(self.home))
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.setattr(official, "reachable", lambda: self.online)
        monkeypatch.setattr(official, "download", self._download)
        monkeypatch.setattr(official, "fetch_command_plugin", self._fetch)
        monkeypatch.setattr(gobuild, "build", self._build)

    def has_pulumi(self, version: str, *plugins: str, where: str = "usr/bin") -> Path:
        """The user's own pulumi, with these plugins beside it; the folder it is under."""
        place = self.folder / where
        executable(place / "pulumi", f"echo v{version}")
        for name in plugins:
            executable(place / name)
        return place.parent

    def has_command_plugin(self) -> None:
        """The real plugin in Pulumi's own cache."""
        executable(self.home / "plugins/resource-command-v1.2.1" / launchers.COMMAND)

    def _download(self, root: Path, _report: Report) -> bool:
        self.done.append("download")
        executable(root / "bin/pulumi")
        executable(root / "bin" / launchers.LANGUAGE)
        return True

    def _fetch(self, _pulumi: Path, _report: Report) -> bool:
        self.done.append("fetch")
        self.has_command_plugin()
        return True

    def _build(self, into: Path, _report: Report) -> None:
        self.done.append("build")
        executable(into / "pulumi")


@pytest.fixture
def computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Computer:
    """A computer without Pulumi, in a closed network."""
    return Computer(tmp_path, monkeypatch)


def names(folder: Path) -> set[str]:
    """The files in a folder; none where there is no folder."""
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def test_a_complete_pulumi_on_path_is_used_as_it_is(computer: Computer) -> None:
    """The user's own Pulumi with both real plugins is taken, and nothing is made."""
    root = computer.has_pulumi("3.280.0", launchers.LANGUAGE)
    computer.has_command_plugin()
    assert install(quiet) == find() == Engine(root=root, version="3.280.0", source=Source.PATH)
    assert not computer.cache.exists()


def test_a_pulumi_outside_a_bin_folder_is_linked_to(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Automation API wants ``root/bin/pulumi``, so one that lies elsewhere gets such a folder."""
    computer.has_pulumi("3.280.0", launchers.LANGUAGE, where="tools")
    computer.has_command_plugin()
    monkeypatch.setenv("PATH", f"{computer.folder}/tools{os.pathsep}{os.environ['PATH']}")
    engine = install(quiet)
    assert (engine.source, engine.standins) == (Source.PATH, ())
    assert (engine.root / "bin/pulumi").resolve() == computer.folder / "tools/pulumi"
    assert find() == engine


def test_a_pulumi_without_the_command_plugin_fetches_the_real_one(computer: Computer) -> None:
    """Where downloads are open, the user's Pulumi gets its real plugin and no stand-in."""
    computer.has_pulumi("3.280.0", launchers.LANGUAGE)
    computer.online = True
    engine = install(quiet)
    assert computer.done == ["fetch"]
    assert (engine.source, engine.standins) == (Source.PATH, ())


def test_a_pulumi_without_the_command_plugin_gets_that_stand_in_only(computer: Computer) -> None:
    """Where they are closed, its own language host stays and only the command plugin is stood in for."""
    root = computer.has_pulumi("3.280.0", launchers.LANGUAGE)
    engine = install(quiet)
    assert computer.done == []
    assert (engine.source, engine.version, engine.standins) == (Source.PATH, "3.280.0", (launchers.COMMAND,))
    assert (engine.root / "bin/pulumi").resolve() == root / "bin/pulumi"
    assert names(engine.root / "bin") == {"pulumi"}
    assert find() == engine


@pytest.mark.parametrize("version", ["3.271.9", "2.300.0", "4.0.0", "oops"])
def test_a_pulumi_of_another_age_is_passed_over(computer: Computer, version: str) -> None:
    """One that is older than the SDK, or of another major version, is not used."""
    computer.has_pulumi(version, launchers.LANGUAGE, launchers.COMMAND)
    assert find() is None
    assert install(quiet).source is Source.BUILT


def test_a_pulumi_without_its_language_host_is_passed_over(computer: Computer) -> None:
    """A lone ``pulumi`` cannot run Python programs, and a stand-in host needs the executor that comes with it."""
    computer.has_pulumi("3.280.0")
    assert install(quiet).source is Source.BUILT


def test_the_official_download_comes_before_the_build(computer: Computer) -> None:
    """Where downloads are open, Pulumi and its real plugin are downloaded, and no stand-in is written."""
    computer.online = True
    engine = install(quiet)
    assert computer.done == ["download", "fetch"]
    assert (engine.source, engine.version, engine.standins) == (Source.OFFICIAL, versions.ENGINE, ())
    assert not (engine.root / "standins").exists()
    assert find() == engine


def test_a_download_that_breaks_off_leads_to_the_build(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that answers and then does not deliver is no dead end."""
    computer.online = True
    monkeypatch.setattr(official, "download", lambda _root, _report: False)
    assert install(quiet).source is Source.BUILT


def test_a_closed_network_builds_and_stands_in_for_both(computer: Computer) -> None:
    """The last rung has the language host beside the engine and the command plugin in a folder of its own."""
    said: list[str] = []
    engine = install(lambda message, _node: said.append(message))
    assert computer.done == ["build"]
    assert engine.standins == (launchers.LANGUAGE, launchers.COMMAND)
    assert names(engine.root / "bin") == {"pulumi", launchers.LANGUAGE}
    assert names(engine.root / "standins") == {launchers.COMMAND}
    assert any("out of reach" in message for message in said)
    assert install(quiet) == find() == engine
    assert computer.done == ["build"]


def test_path_holds_the_engine_then_the_stand_in_then_this_python(computer: Computer) -> None:
    """A shell with these variables finds this engine, this interpreter and everything it found before, once each."""
    engine = install(quiet)
    first = [str(engine.root / "bin"), str(engine.root / "standins"), str(Path(sys.executable).parent)]
    entries = engine.env()["PATH"].split(os.pathsep)
    assert entries[:3] == first
    assert f"{computer.folder}/usr/bin" in entries
    assert len(set(entries)) == len(entries)


def test_a_real_plugin_that_came_later_goes_before_the_stand_in(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the real command plugin is there, the stand-in is off PATH, also off one inherited from a shell."""
    engine = install(quiet)
    monkeypatch.setenv("PATH", engine.env()["PATH"])
    computer.has_command_plugin()
    assert str(engine.root / "standins") not in engine.env()["PATH"].split(os.pathsep)


def test_a_shell_that_uses_our_engine_finds_it_again(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With our own variables set, the engine on PATH is not taken for the user's."""
    engine = install(quiet)
    executable(engine.root / "bin/pulumi", "echo v3.280.0")
    monkeypatch.setenv("PATH", engine.env()["PATH"])
    assert find() == engine
    assert computer.done == ["build"]


def test_a_failed_build_leaves_nothing_and_can_be_repeated(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an engine is never found, and the next attempt starts clean."""

    def break_off(into: Path, _report: Report) -> None:
        executable(into / "pulumi")
        raise Failed("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(gobuild, "build", break_off)
        with pytest.raises(Failed):
            install(quiet)
    assert names(computer.cache) == {".lock"}
    assert find() is None
    executable(computer.cache / ".new-built-by-a-killed-process/bin/pulumi")
    engine = install(quiet)
    assert names(computer.cache) == {".lock", engine.root.name}


def test_two_at_once_build_once(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second installation waits for the first, says so, and takes its result."""
    waiting = threading.Event()
    build: Callable[[Path, Report], None] = gobuild.build

    def build_slowly(into: Path, report: Report) -> None:
        assert waiting.wait(10)
        build(into, report)

    def hear(message: str, _node: str | None) -> None:
        if "another installation" in message:
            waiting.set()

    monkeypatch.setattr(gobuild, "build", build_slowly)
    engines: list[Engine] = []
    both = [threading.Thread(target=lambda: engines.append(install(hear))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(20)
    assert computer.done == ["build"]
    assert engines[0] == engines[1]


def test_without_go_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a download nor Go: the error says what to install."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(official, "reachable", lambda: False)
    monkeypatch.setattr(gomodule, "find_go", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match=r"go\.dev/dl"):
        install(quiet)


def test_an_old_go_is_no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go 1.20 cannot fetch the toolchain that the module asks for."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    executable(tmp_path / "go", "echo go1.20.14")
    assert gomodule.find_go() is None
    executable(tmp_path / "go", "echo go1.21.0")
    assert gomodule.find_go() == str(tmp_path / "go")


def test_a_launcher_takes_a_python_that_has_what_it_needs(tmp_path: Path) -> None:
    """The python3 on PATH goes first, then the one that installed it; with neither it says what to do."""
    launchers.write(tmp_path, (launchers.COMMAND,))
    launcher = tmp_path / launchers.COMMAND
    tools = tmp_path / "tools"
    executable(tools / "python3", 'if [ "$2" = -c ]; then exit "$USABLE"; fi; echo "started $*"')

    def start(usable: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": f"{tools}:/usr/bin:/bin", "USABLE": usable}
        return subprocess.run([launcher, "address"], env=env, capture_output=True, text=True, timeout=30, check=False)

    assert start("0").stdout == "started -P -m runcrate_iac.engine.standin.command address\n"
    recorded = launcher.read_text()
    assert sys.executable in recorded
    launcher.write_text(recorded.replace(sys.executable, "/no/such/python"))
    refused = start("1")
    assert refused.returncode == 1
    assert "remedy" in refused.stderr


def test_each_version_is_pinned_once(computer: Computer) -> None:
    """The module that is built, the plugin's Python package and the oldest engine agree with the pins."""
    del computer
    module = (gobuild.MODULE / "go.mod").read_text()
    assert module.count(f"v{versions.ENGINE}\n") == 2
    plugin = resources.files("pulumi_command").joinpath("pulumi-plugin.json").read_text()
    assert json.loads(plugin)["version"] == versions.COMMAND_PLUGIN
    (sdk,) = [line for line in metadata.requires("runcrate-iac") or () if line.startswith(("pulumi<", "pulumi>"))]
    assert f">={'.'.join(map(str, versions.OLDEST_ENGINE[:2]))}" in sdk


def test_finding_the_engine_loads_no_pulumi() -> None:
    """``find`` is on the way of every command, so it must not import Pulumi's SDK."""
    code = (
        "import sys, runcrate_iac.engine.install as i; i.find(); print('pulumi' in sys.modules, 'grpc' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False False\n"
