"""A request that one part of the server makes of a shard, in the shape of a client's.

Asking by `submit` rather than by `tell` has one reason: there is always an outcome. The reply comes when everything it
depends on is durable; if the log cannot be written, or the disk is too slow, the outcome is the error that a client would see.
"""

from collections.abc import Callable
from typing import Any

from coordinator.protocol.errors import KafkaError

DONE: Any = "done"
"""A reply that says nothing but that it is done."""


class InternalRequest:
    """`done` gets the operation's reply, any object, or a KafkaError; once."""

    __slots__ = ("_done", "api_version", "request", "writes")

    client_id: str | None = None
    client_host = ""
    fresh_id = ""

    def __init__(self, request: Any, done: Callable[[Any], None], *, writes: bool = True) -> None:
        self.request = request
        self.api_version = 0
        self.writes = writes
        self._done = done

    def encode(self, message: Any) -> Any:
        return message

    def refusal(self, error: KafkaError) -> Any:
        return error

    def wait(self) -> None:
        """No operation that is asked for like this lets its asker wait."""
        raise AssertionError

    def send(self, payload: Any) -> None:
        self._done(payload)
