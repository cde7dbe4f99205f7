"""The command stand-in behaves as pulumi-command's local.Command does."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from runcrate_iac.engine.standin.values import ASSET, SIGNATURE, UNKNOWN, is_secret, secret, without_secrets

pytestmark = pytest.mark.engine


def test_create_runs_the_command_and_keeps_both_outputs_without_their_last_newline(plugin: Any) -> None:
    """Standard output and standard error are kept apart, and one trailing newline of each is dropped."""
    made = plugin.create(create="printf 'out\\n\\n'; echo err >&2")
    assert (made.state["stdout"], made.state["stderr"]) == ("out\n", "err")
    assert made.id.startswith("step")


def test_interpreter_directory_environment_and_input_reach_the_command(plugin: Any, tmp_path: Path) -> None:
    """The interpreter gets the command as its last argument, in ``dir``, with ``environment`` and ``stdin``."""
    made = plugin.create(
        create="import os, sys; print(os.getcwd(), os.environ['WHO'], sys.stdin.read(), sep='|')",
        interpreter=["python3", "-c"],
        dir=str(tmp_path),
        environment={"WHO": "me"},
        stdin="fed",
    )
    assert made.state["stdout"] == f"{tmp_path}|me|fed"


def test_without_a_directory_the_command_runs_in_the_working_folder(plugin: Any) -> None:
    """The default of ``dir`` is the folder that the engine runs in."""
    assert plugin.create(create="pwd").state["stdout"] == str(plugin.folder)


def test_input_larger_than_a_pipe_passes_while_output_is_read(plugin: Any) -> None:
    """Five megabytes of standard input come back on standard output without a deadlock."""
    text = "0123456789" * 500_000
    assert plugin.create(create="cat", stdin=text, logging="none").state["stdout"] == text


def test_a_command_may_leave_its_input_unread(plugin: Any) -> None:
    """A command that ends without reading a large standard input is no error."""
    assert plugin.create(create="echo done", stdin="x" * 1_000_000).state["stdout"] == "done"


def test_output_that_is_no_text_is_kept_as_text(plugin: Any) -> None:
    """Bytes that are no UTF-8 are replaced, the rest stays, NUL included."""
    assert plugin.create(create=r"printf 'a\377b\000c'").state["stdout"] == "a\ufffdb\0c"


def test_update_runs_update_and_otherwise_create_again(plugin: Any) -> None:
    """A changed input runs ``update`` where there is one, else ``create``."""
    made = plugin.create(create="echo made", stdin="1")
    assert plugin.update(made, create="echo again", stdin="2").state["stdout"] == "again"
    assert plugin.update(made, create="echo again", update="cat", stdin="2").state["stdout"] == "2"


def test_the_last_run_s_output_is_in_the_environment_of_the_next(plugin: Any) -> None:
    """Update and delete see PULUMI_COMMAND_STDOUT and PULUMI_COMMAND_STDERR, unless that is turned off."""
    made = plugin.create(create="echo one; echo two >&2")
    tell = 'echo "${PULUMI_COMMAND_STDOUT-unset} ${PULUMI_COMMAND_STDERR-unset}"'
    assert plugin.update(made, create=tell).state["stdout"] == "one two"
    assert plugin.update(made, create=tell, addPreviousOutputInEnv=False).state["stdout"] == "unset unset"


def test_a_large_earlier_output_stops_the_next_run_unless_it_is_kept_out(plugin: Any) -> None:
    """300 kB of earlier output break the next run as with the real plugin, and not without the variable (G4)."""
    loud = "head -c 300000 /dev/zero | tr '\\0' x"
    made = plugin.create(create=loud, logging="none")
    with pytest.raises(grpc.RpcError, match="Argument list too long"):
        plugin.update(made, create="echo fine")
    quiet = plugin.update(made, create="echo fine", delete="true", addPreviousOutputInEnv=False)
    assert quiet.state["stdout"] == "fine"
    plugin.delete(quiet)


def test_delete_runs_the_delete_of_the_state(plugin: Any, tmp_path: Path) -> None:
    """Delete runs the command that was declared last, and nothing where none was."""
    mark = tmp_path / "deleted"
    plugin.delete(plugin.create(create="true"))
    assert not mark.exists()
    plugin.delete(plugin.create(create="true", delete=f"touch {mark}"))
    assert mark.exists()


def test_changed_triggers_replace_and_other_changes_update(plugin: Any) -> None:
    """Only ``triggers`` asks for a replacement; the same inputs are no change, secret or not."""
    made = plugin.create(create="true", triggers=["a", 1], stdin=secret("x"))
    same = plugin.diff(made, create="true", triggers=["a", 1], stdin="x")
    changed = plugin.diff(made, create="true", triggers=["a", 1], stdin="y")
    replaced = plugin.diff(made, create="true", triggers=["a", 2], stdin="x")
    assert same.changes == same.DIFF_NONE
    assert (changed.changes, list(changed.diffs), list(changed.replaces)) == (changed.DIFF_SOME, ["stdin"], [])
    assert list(replaced.replaces) == ["triggers"]


def test_a_secret_input_makes_the_outputs_secret(plugin: Any) -> None:
    """Every output depends on every input; inputs that are not secret stay readable."""
    made = plugin.create(create="cat", stdin=secret("hush"), environment={"A": "b"})
    assert is_secret(made.state["stdout"])
    assert is_secret(made.state["stderr"])
    assert without_secrets(made.state["stdout"]) == "hush"
    assert made.state["environment"] == {"A": "b"}
    assert not is_secret(plugin.create(create="true").state)


def test_a_preview_runs_nothing_and_knows_no_output(plugin: Any, tmp_path: Path) -> None:
    """In a preview of create or update the outputs are unknown and no command runs."""
    mark = tmp_path / "ran"
    seen = plugin.create(preview=True, create=f"touch {mark}")
    assert seen.state["stdout"] == UNKNOWN
    made = plugin.create(create="echo kept")
    assert plugin.update(made, preview=True, create=f"touch {mark}").state["stderr"] == UNKNOWN
    assert not mark.exists()


def test_a_failure_names_exit_code_command_and_output(plugin: Any) -> None:
    """The error is the real plugin's: how it ended, the command, and both outputs in order."""
    with pytest.raises(grpc.RpcError) as failure:
        plugin.create(create='echo "to out"; sleep 0.1; echo "to err" >&2; exit 7')
    expected = 'exit status 7: running "echo \\"to out\\"; sleep 0.1; echo \\"to err\\" >&2; exit 7":\nto out\nto err\n'
    assert failure.value.details() == expected


def test_a_failure_with_much_output_arrives(plugin: Any) -> None:
    """Twenty megabytes of output leave the exit code and their end in the error."""
    with pytest.raises(grpc.RpcError) as failure:
        plugin.create(create="yes | head -c 20000000; echo the end; exit 9", logging="none")
    assert (failure.value.details() or "").startswith("exit status 9: running ")
    assert (failure.value.details() or "").endswith("the end\n")


def test_a_command_that_cannot_start_says_why(plugin: Any) -> None:
    """A missing folder and a missing interpreter are named."""
    with pytest.raises(grpc.RpcError, match="/no/such/folder: No such file or directory"):
        plugin.create(create="true", dir="/no/such/folder")
    with pytest.raises(grpc.RpcError, match="no-such-shell"):
        plugin.create(create="true", interpreter=["no-such-shell"])


@pytest.mark.parametrize(
    ("logging", "lines"),
    [
        (None, {"out", "err"}),
        ("stdoutAndStderr", {"out", "err"}),
        ("stdout", {"out"}),
        ("stderr", {"err"}),
        ("none", set()),
    ],
)
def test_logging_chooses_the_live_lines_and_never_the_outputs(
    plugin: Any, logging: str | None, lines: set[str]
) -> None:
    """``logging`` decides which stream is shown live; both are kept in any case."""
    chosen = {"logging": logging} if logging else {}
    made = plugin.create(create="echo out; printf err >&2", **chosen)
    assert set(plugin.lines) == lines
    assert (made.state["stdout"], made.state["stderr"]) == ("out", "err")


def test_lines_are_shown_while_the_command_runs(plugin: Any, soon: ThreadPoolExecutor, tmp_path: Path) -> None:
    """A line is in the engine's log before the command has ended."""
    go = tmp_path / "go"
    running = soon.submit(plugin.create, create=f"echo working; until [ -e {go} ]; do sleep 0.05; done")
    deadline = time.monotonic() + 10
    while plugin.lines != ["working"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert plugin.lines == ["working"]
    assert not running.done()
    go.touch()
    running.result(10)


def test_many_commands_run_at_once(plugin: Any, soon: ThreadPoolExecutor, tmp_path: Path) -> None:
    """Thirty creates that wait for each other all end, so none waits for a free slot."""
    meet = f"touch {tmp_path}/$$.here; until [ $(ls {tmp_path}/*.here | wc -l) -ge 30 ]; do sleep 0.1; done"
    running = [soon.submit(plugin.create, create=meet) for _ in range(30)]
    for create in running:
        create.result(60)


def test_files_become_assets_and_an_archive(plugin: Any) -> None:
    """Globs select files after the command has run, in order, with ``!`` taking out again."""
    made = plugin.create(
        create="mkdir -p a/b src; touch a/b/logo.svg src/index.js src/secret.js note.txt",
        assetPaths=["a/**", "src/**.js", "!**secret.*"],
        archivePaths=["*.{txt,md}"],
    )
    assert set(made.state["assets"]) == {"a/b/logo.svg", "src/index.js"}
    logo = made.state["assets"]["a/b/logo.svg"]
    assert logo[SIGNATURE] == ASSET
    assert logo["path"] == str(plugin.folder / "a/b/logo.svg")
    assert set(made.state["archive"]["assets"]) == {"note.txt"}


def test_wrong_inputs_are_refused_by_name(plugin: Any) -> None:
    """A property that is unknown or of the wrong type is named before anything runs."""
    answer = plugin.check(create=3, environment={"A": 1}, logging="loud", creat="x", stdin="fine", dir=UNKNOWN)
    assert {failure.property for failure in answer.failures} == {"create", "environment", "logging", "creat"}


def test_other_resources_of_the_package_are_refused_clearly(own_plugin: Any) -> None:
    """remote.Command says that it needs the real plugin and how to get it."""
    own_plugin.urn = "urn:pulumi:dev::tried::command:remote:Command::other"
    with pytest.raises(grpc.RpcError, match=r"pulumi plugin install resource command 1\.2\.1"):
        own_plugin.check(create="true")


def test_it_says_once_that_it_is_a_stand_in(own_plugin: Any) -> None:
    """One message in the engine's log tells what runs the commands, and why."""
    own_plugin.create(create="true")
    own_plugin.create(create="true")
    (message,) = own_plugin.messages
    assert "stand-in for pulumi-resource-command" in message
