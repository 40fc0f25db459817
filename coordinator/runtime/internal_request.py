"""A request that one part of the server sends to a shard, in the form of a client's request.

`Shard.submit` with an InternalRequest differs from `Shard.run_internal` in one way: there is always an outcome. It comes when
everything that it depends on is durable; if the log cannot be written, or not in time, it is the error that a client would get.
"""

from collections.abc import Callable
from typing import Any

from coordinator.protocol.errors import KafkaError
from coordinator.protocol.releases import AS_NEWEST
from coordinator.runtime.result import NO_LINK

DONE: Any = "done"
"""The reply of an operation that has nothing to return."""


class UnencodedReplies:
    """The part of a ShardRequest that leaves replies as they are: the reply of the operation, or a KafkaError."""

    __slots__ = ()

    def may_describe(self, _name: str) -> bool:
        return True

    def encode(self, message: Any) -> Any:
        return message

    def refusal(self, error: KafkaError) -> Any:
        return error

    def wait(self) -> None:
        """Never called: no operation that gets such requests parks them in its state."""
        raise AssertionError


class InternalRequest(UnencodedReplies):
    """Calls `done` once, with the operation's reply (any object) or with a KafkaError."""

    __slots__ = ("_done", "api_version", "request", "writes")

    client_id: str | None = None
    client_host = ""
    link = NO_LINK
    dialect: str | None = None
    behaviours = AS_NEWEST
    fresh_id = ""

    def __init__(self, request: Any, done: Callable[[Any], None], *, writes: bool = True) -> None:
        self.request = request
        self.api_version = 0
        self.writes = writes
        self._done = done

    def send(self, payload: Any) -> None:
        self._done(payload)
