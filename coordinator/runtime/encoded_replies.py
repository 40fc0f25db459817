"""How the reply of an operation becomes the response of a client (internal_request.py has the other kind of replies)."""

import logging
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from coordinator.protocol.codec import EncodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.runtime.memory import COUNTED_BYTES

_log = logging.getLogger(__name__)


class ReplyRoute(Protocol):
    """How the responses of one version of an API are encoded, and how many there were (api/route.py)."""

    name: str
    version: int
    answered: int
    errors: dict[int, int]
    has_error_code: bool
    encode: Callable[[Any], bytes]
    head: Callable[..., bytes]
    head_bytes: int


class ReplyQueue(Protocol):
    """The connection."""

    def count(self, response_bytes: int) -> None:
        """Counts the memory of a large response."""


class EncodedReplies:
    """The part of a ShardRequest that makes whole response frames, as its route says, and counts them."""

    __slots__ = ()

    route: ReplyRoute
    queue: ReplyQueue
    correlation_id: int

    @abstractmethod
    def refusal(self, error: KafkaError) -> Message:
        """The response that reports this error."""

    @abstractmethod
    def close(self, reason: str) -> None:
        """Closes the connection: there is no response that can be sent."""

    def encode(self, message: Any) -> bytes:
        """Encodes the whole response frame, and counts it. `message` may be an encoded body (runtime/result.py).

        Always returns: a response that cannot be encoded (a string that the server composed is too long) becomes
        UNKNOWN_SERVER_ERROR, and if that cannot be encoded either, the connection closes.
        """
        route = self.route
        if type(message) is bytes:
            route.answered += 1
            return route.head(len(message) + route.head_bytes, self.correlation_id) + message
        try:
            body = route.encode(message)
        except EncodeError as error:
            return self.encode_refusal(error)
        size = len(body)
        route.answered += 1
        if size > COUNTED_BYTES or (route.has_error_code and message.error_code):
            self.count(message, size)
        return route.head(size + route.head_bytes, self.correlation_id) + body

    def encode_refusal(self, error: EncodeError) -> bytes:
        """The frame that takes the place of a response that cannot be encoded; none if the connection must close."""
        route = self.route
        reason = f"the response cannot be encoded: {error}"
        _log.error("event=response_not_encoded api=%s version=%d reason=%s", route.name, route.version, error)
        message = self.refusal(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        try:
            body = route.encode(message)
        except EncodeError:
            self.close(reason)
            return b""
        route.answered += 1
        self.count(message, len(body))
        return route.head(len(body) + route.head_bytes, self.correlation_id) + body

    def count(self, message: Any, size: int) -> None:
        """Counts a response that carries an error or is large."""
        route = self.route
        if route.has_error_code and message.error_code:
            error = message.error_code
            route.errors[error] = route.errors.get(error, 0) + 1
        if size > COUNTED_BYTES:
            self.queue.count(size)
