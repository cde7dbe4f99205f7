"""OpenSSH public keys: normalised, or refused with the reason (F30)."""

from __future__ import annotations

import base64
import struct

from pydantic import AfterValidator

TYPES = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)


def normalise(text: str) -> str:
    """The key on one line as ``type base64 comment``; CRLF, blanks and a final newline do not matter.

    Raises :class:`ValueError` where it is no public key; the text itself never shows in the message,
    since it may be a private key.
    """
    if "PRIVATE KEY" in text:
        msg = "this is a private key; give the public one (the file that ends in .pub)"
        raise ValueError(msg)
    words = text.split()
    if len(words) < 2 or words[0] not in TYPES:  # noqa: PLR2004
        msg = "not an OpenSSH public key: expected one line such as 'ssh-ed25519 AAAA… comment'"
        raise ValueError(msg)
    try:
        blob = base64.b64decode(words[1], validate=True)
        (size,) = struct.unpack_from(">I", blob)
        inner = blob[4 : 4 + size].decode("ascii")
    except (ValueError, struct.error):
        inner = ""
    if inner != words[0]:
        msg = f"the {words[0]} public key is damaged: its base64 part does not decode to such a key"
        raise ValueError(msg)
    comment = "".join(letter for letter in "-".join(words[2:]) if letter.isprintable())
    return " ".join([words[0], words[1], comment]).strip()


public_key = AfterValidator(normalise)
