"""Handles a large request in slices, so that others have their turn in between.

A handler whose work grows with its request is a generator: it yields after each piece of about a millisecond. The first slice
runs at once, so a small request is answered as if there were no slices. Until a larger one is answered, the later requests of
its connection wait, as in Kafka. What a handler has read between two pieces may have changed.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from coordinator.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from coordinator.api.exchange import Exchange

_log = logging.getLogger(__name__)

SLICE_PIECES = 8
"""The most pieces of a slice. Its time is bounded by the turn; this bounds it where time stands still, in a simulation."""

Pieces = Iterator[None]
"""The work of one request, a piece for each step."""


class SliceTaker(Protocol):
    def take_slice(self) -> None:
        """Does the work of one slice, at least a little."""


class SharedTurn(Protocol):
    """The turn of the event loop, which all requests share (network/turn.py)."""

    def has_time(self) -> bool:
        """Whether more work may be done in this turn."""

    def wait(self, taker: SliceTaker, *, is_new: bool) -> None:
        """Gives a slice of a later turn."""


class SlicedWork:
    """The work of one request."""

    __slots__ = ("_exchange", "_pieces", "_turn")

    def __init__(self, exchange: "Exchange[Any]", pieces: Pieces, turn: SharedTurn) -> None:
        self._exchange = exchange
        self._pieces = pieces
        self._turn = turn

    def begin(self) -> None:
        """Does the first slice. Raises what its pieces raise."""
        if not self._is_done():
            self._exchange.wait()
            self._turn.wait(self, is_new=False)

    def take_slice(self) -> None:
        exchange = self._exchange
        try:
            done = exchange.is_over or self._is_done()
        except KafkaError as error:
            exchange.reply(exchange.refusal(error))
        except Exception:  # noqa: BLE001 - a bug must not take the other connections down
            _log.exception("event=request_failed api=%s version=%d", exchange.route.name, exchange.route.version)
            exchange.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            if not done:
                self._turn.wait(self, is_new=False)

    def _is_done(self) -> bool:
        """Whether the work is finished after this slice."""
        left = SLICE_PIECES
        for _ in self._pieces:
            left -= 1
            if not left or not self._turn.has_time():
                return False
        return True
