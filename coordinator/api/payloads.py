"""Encoded responses that are changed on their way to the client: read again, and written again."""

from typing import Any

from coordinator.api.exchange import Parts, Route
from coordinator.protocol.codec import Codec

_SIZE_BYTES = 4


def has_field(api: str, version: int, attribute: str) -> bool:
    """Whether the response of this version has a field of this name at its top."""
    return any(
        field.attribute == attribute and version in field.versions
        for field in Codec.of().definition(f"{api}Response").root.fields
    )


def decoded(route: Route, payload: bytes | Parts) -> Any:
    """The message in an encoded response; None if it is empty (a Produce with acks=0)."""
    frame = payload if isinstance(payload, bytes) else b"".join(payload.parts)
    if not frame:
        return None
    decode = Codec.of(route.dialect).decoder(f"{route.name}Response", route.version)
    return decode(frame, _SIZE_BYTES + route.head_bytes)[0]


def encoded(route: Route, correlation_id: int, message: Any) -> bytes:
    """The whole response frame. Raises EncodeError."""
    body = route.encode(message)
    return route.head(len(body) + route.head_bytes, correlation_id) + body


def throttled(route: Route, correlation_id: int, payload: bytes | Parts, throttle_ms: int) -> bytes | Parts:
    """The same response with this throttle time, if its version has the field."""
    message = decoded(route, payload) if has_field(route.name, route.version, "throttle_time_ms") else None
    if message is None:
        return payload
    message.throttle_time_ms = throttle_ms
    return encoded(route, correlation_id, message)
