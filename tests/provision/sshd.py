"""SSH servers on loopback: a line of JSON on standard input makes one, a line on standard output says where it is.

A process of its own, so that nothing of it outlives a test. Its shell is this computer's ``sh``, without sudo.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from asyncio.subprocess import PIPE

import asyncssh

CHUNK = 1 << 16


async def feed(source: asyncssh.SSHReader[bytes], target: asyncio.StreamWriter) -> None:
    """Give a shell what comes, as it comes; one that has ended needs no more."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()
    target.close()


async def pass_on(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    """Send what a shell prints."""
    while chunk := await source.read(CHUNK):
        target.write(chunk)


async def serve(authorized: str, noise: str, refusals: int) -> dict[str, object]:
    """Start a server that lets these keys in, but for the first logins, as many as ``refusals``.

    ``noise`` is what its shells print first (F29).
    """
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    keys, logins = asyncssh.import_authorized_keys(authorized), itertools.count(1)

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            self._connection = conn

        def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - asyncssh gives it
            if next(logins) > refusals:
                self._connection.set_authorized_keys(keys)
            return True

    async def shell(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(noise.encode())
        child = await asyncio.create_subprocess_exec(
            "sh", "-c", process.command or "", stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        assert child.stdin
        assert child.stdout
        assert child.stderr
        feeding = asyncio.create_task(feed(process.stdin, child.stdin))
        await asyncio.gather(pass_on(child.stdout, process.stdout), pass_on(child.stderr, process.stderr))
        process.exit(await child.wait())
        feeding.cancel()

    server = await asyncssh.create_server(
        Server,
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        process_factory=shell,
        encoding=None,
    )
    public = " ".join(host_key.export_public_key().decode().split()[:2])
    return {"port": server.get_port(), "host_key": public}


async def main() -> None:
    """Serve until standard input ends."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await serve(**json.loads(line))), flush=True)


asyncio.run(main())
