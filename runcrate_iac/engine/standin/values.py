"""Pulumi's property values on the wire: plain JSON, with signed objects for secrets, assets and the unknown."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format, struct_pb2

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a type tag of the protocol
ASSET = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What stands for a string that is not known before other resources exist (previews only)."""

Values = dict[str, Any]


def from_wire(struct: struct_pb2.Struct) -> Values:
    """The properties as Python values, signed objects kept as they are."""
    values: Values = json_format.MessageToDict(struct)
    return values


def to_wire(values: Values) -> struct_pb2.Struct:
    """The properties as a message."""
    return json_format.ParseDict(values, struct_pb2.Struct())


def is_secret(value: Any) -> bool:
    """Tell whether the value, or anything in it, is marked secret."""
    if isinstance(value, dict):
        return value.get(SIGNATURE) == SECRET or any(map(is_secret, value.values()))
    return isinstance(value, list) and any(map(is_secret, value))


def without_secrets(value: Any) -> Any:
    """The value with every secret mark taken off."""
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            return without_secrets(value["value"])
        return {key: without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_secrets(inner) for inner in value]
    return value


def secret(value: Any) -> Values:
    """The value, marked secret."""
    return {SIGNATURE: SECRET, "value": value}
