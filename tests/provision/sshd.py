"""SSH servers on loopback: a line of JSON on standard input makes one, a line on standard output says where it is.

A process of its own, so that nothing of it outlives a test. Its shell is this computer's ``sh``, without sudo.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE

import asyncssh


async def serve(authorized: str, noise: str) -> dict[str, object]:
    """Start a server that lets these keys in; ``noise`` is what its shells print first (F29)."""
    host_key = asyncssh.generate_private_key("ssh-ed25519")

    async def shell(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(noise.encode())
        child = await asyncio.create_subprocess_exec(
            "sh", "-c", process.command or "", stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        await process.redirect(child.stdin, child.stdout, child.stderr)
        process.exit(await child.wait())

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=asyncssh.import_authorized_keys(authorized),
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
