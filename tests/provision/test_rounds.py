"""Waiting for the declared nodes: what the head asks its software, in real shells and over HTTP on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from runcrate_iac.model.conditions import Condition, Status
from runcrate_iac.model.network import Machine, NetworkPlan, plan
from runcrate_iac.provision import rounds
from runcrate_iac.render import render

SECONDS = 20
"""Of a round that is over as soon as all is well."""


def network() -> NetworkPlan:
    """Two machines."""
    return plan([Machine(index=i, id=f"m{i}", host=f"192.0.2.{i + 1}") for i in range(2)])


def second_answer(folder: Path, tool: str, first: str, then: str, text: str) -> str:
    """What a script prints that asks a tool until it is content: ``first``, and ``then`` from then on."""
    (folder / "first").write_text(first)
    (folder / "then").write_text(then)
    program = folder / tool
    program.write_text(f"#!/bin/sh\ncd {folder}\ncat first\ncp then first\n")
    program.chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-eus"], input=text, env=path, capture_output=True, text=True, check=True, timeout=SECONDS
    )
    return done.stdout


@pytest.mark.parametrize("wrong", ["node-9 8 True ok", "node-9 8 True ok\nnode-1 7 True ok"])
def test_kubernetes_is_asked_until_the_declared_nodes_are_ready(tmp_path: Path, wrong: str) -> None:
    """A node that nobody declared makes up for none that is missing or wrong (C6, F22)."""
    text = render("kubernetes/wait.sh.j2", plan=network(), gpus=8, gpu="nvidia.com/gpu", seconds=SECONDS)
    well = "node-0 8 True ok\nnode-1 8 True ok\n"
    assert second_answer(tmp_path, "kubectl", f"node-0 8 True ok\n{wrong}\n", well, text) == well


@pytest.mark.parametrize("wrong", ["node-9 idle gpu:h100:8 none", "node-1 idle gpu:h100:7 none"])
def test_slurm_is_asked_until_the_declared_nodes_are_idle(tmp_path: Path, wrong: str) -> None:
    """A node with too few GPUs is not waited for by its state alone, nor is another node counted for it (C6, F22)."""
    nodes = network().nodes
    text = render("slurm/wait.sh.j2", wanted=nodes, gres="gpu:h100:8", at_work="idle|mixed", seconds=SECONDS)
    well = "node-0 idle gpu:h100:8(S:0) none\nnode-1 mixed- gpu:h100:8 none\n"
    assert second_answer(tmp_path, "sinfo", f"node-0 idle gpu:h100:8 none\n{wrong}\n", well, text) == well


@pytest.fixture
def dashboard() -> Iterator[tuple[str, list[dict[str, int]]]]:
    """The address of a dashboard of Ray's, and its answers in turn: GPUs by address."""
    answers: list[dict[str, int]] = []

    class Dashboard(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nodes = [{"node_ip": ip, "resources_total": {"CPU": 2, "GPU": gpus}} for ip, gpus in answers[0].items()]
            answers[:] = answers[1:] or answers
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"result": {"result": nodes}}}).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Dashboard) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", answers
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("wrong", [{"10.77.0.9": 8}, {"10.77.0.2": 7}])
def test_ray_is_asked_until_the_declared_nodes_are_alive(
    dashboard: tuple[str, list[dict[str, int]]], wrong: dict[str, int]
) -> None:
    """A node at another address makes up for none that is missing or has too few GPUs (C6, F22)."""
    url, answers = dashboard
    answers += [{"10.77.0.1": 8, **wrong}, {"10.77.0.1": 8, "10.77.0.2": 8}]
    command = [sys.executable, "-c", render("ray/nodes.py"), url, str(SECONDS), "8", "10.77.0.1", "10.77.0.2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert done.stdout == "node 10.77.0.1 2 8\nnode 10.77.0.2 2 8\n"


def test_an_answer_that_comes_at_once_is_not_asked_for_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions keep their distance however fast the answer, end at their time, and the last answer is told (X5)."""
    asked = []

    def ask() -> list[Condition]:
        asked.append(time.monotonic())
        return [Condition(type="Ready", status=Status.FALSE, reason="Not", message="no", node="node-1")]

    monkeypatch.setattr(rounds, "PAUSE", 0.1)
    begun = time.monotonic()
    (told,) = rounds.until_well("node-0", ask, patience=0.35)
    assert told.reason == "Not"
    assert time.monotonic() - begun >= 0.35
    assert len(asked) <= 5
