"""What layers do with messages: encoded responses are read again, and written again; the name of a topic is found."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from coordinator.api.exchange import Parts
from coordinator.api.route import Route
from coordinator.log.batch import BatchHeader, CorruptBatch, whole_batches
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.topics.registry import NO_ID
from coordinator.topics.topics import Topics

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


def topic_of(holder: Any, topics: Topics) -> str | None:
    """The name of the topic in a request or response, whichever way its version names it."""
    name: str | None = getattr(holder, "name", None) or getattr(holder, "topic", None)
    topic_id = getattr(holder, "topic_id", NO_ID)
    return name or (None if topic_id == NO_ID else topics.topic_name(topic_id))


def error_name(code: int) -> str | None:
    """The name of an error; None if there is none."""
    if not code:
        return None
    return ErrorCode(code).name if code in set(ErrorCode) else str(code)


def batches_in(records: bytes | None) -> Iterator[BatchHeader]:
    """The headers of the batches in a message, as far as they can be read."""
    with suppress(CorruptBatch):
        for _, header in whole_batches(records or b""):
            yield header
