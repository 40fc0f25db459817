"""JSON as admin HTTP sends it."""

from typing import Any

import msgspec


def json_bytes(value: Any) -> bytes:
    """The value as JSON that people can read too. Names that clients choose are in it as text only."""
    body: bytes = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return body + b"\n"
