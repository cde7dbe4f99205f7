"""A closed network is noticed in seconds, whatever answers in the place of Pulumi's site."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from runcrate_iac.engine import official


@contextmanager
def site(status: int, page: bytes) -> Iterator[str]:
    """A web server on loopback that answers everything the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/install.sh"
        server.shutdown()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize(
    ("status", "page", "reachable"),
    [
        (200, b"#!/bin/sh\necho installing\n", True),
        (200, b"<html>Sign in to this network</html>", False),
        (403, b"#!/bin/sh\n", False),
        (502, b"", False),
    ],
)
def test_only_the_installer_itself_counts(
    monkeypatch: pytest.MonkeyPatch, status: int, page: bytes, *, reachable: bool
) -> None:
    """A proxy's refusal and a portal's page are no way to the downloads."""
    with site(status, page) as address:
        monkeypatch.setattr(official, "_INSTALLER", address)
        assert official.reachable() is reachable


def test_a_site_that_never_answers_costs_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is accepted and then ignored is given up."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(official, "_INSTALLER", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        monkeypatch.setattr(official, "_ANSWER_SECONDS", 0.3)
        begun = time.monotonic()
        assert not official.reachable()
        assert time.monotonic() - begun < 5
