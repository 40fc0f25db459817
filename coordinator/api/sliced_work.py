"""Handles a large request in slices, so that others have their turn in between.

A handler whose work grows with its request is a generator: it yields after each piece of about a millisecond. The first slice
runs at once, so a small request is answered as if there were no slices. Until a larger one is answered, the later requests of
its connection wait, as in Kafka. What a handler has read between two pieces may have changed.
"""

import logging
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from coordinator.protocol.errors import KafkaError

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

    def begin(self) -> None:
        """Measures the turn from now on, before a large request is decoded."""

    def has_time(self) -> bool:
        """Whether more work may be done in this turn."""

    def wait(self, taker: SliceTaker, *, is_new: bool) -> None:
        """Gives a slice of a later turn."""


class BackgroundWork:
    """Work that no client waits for, in order: at once while the turn has time, the rest in later turns."""

    __slots__ = ("_turn", "_works")

    def __init__(self, turn: SharedTurn) -> None:
        self._turn = turn
        self._works: deque[Pieces] = deque()

    def add(self, pieces: Pieces) -> None:
        """Does these pieces after those that were added before. A piece may add more."""
        self._works.append(pieces)
        if len(self._works) == 1:
            self.take_slice()

    def take_slice(self) -> None:
        while self._works:
            try:
                for _ in self._works[0]:
                    if not self._turn.has_time():
                        self._turn.wait(self, is_new=False)
                        return
            except Exception:  # noqa: BLE001 - the works behind it must not wait for ever
                _log.exception("event=background_work_failed")
            self._works.popleft()

    def finish(self) -> None:
        """Does all that is left, before the server stops."""
        while self._works:
            for _ in self._works[0]:
                pass
            self._works.popleft()


class SlicedWork:
    """The work of one request."""

    __slots__ = ("_even_if_lost", "_exchange", "_pieces", "_turn")

    def __init__(self, exchange: "Exchange[Any]", pieces: Pieces, turn: SharedTurn, *, even_if_lost: bool) -> None:
        self._even_if_lost = even_if_lost
        self._exchange = exchange
        self._pieces = pieces
        self._turn = turn

    def begin(self) -> None:
        """Does the first slice. Raises the KafkaError of a piece."""
        if not self._is_over():
            self._exchange.wait()
            self._turn.wait(self, is_new=False)

    def take_slice(self) -> None:
        exchange = self._exchange
        try:
            is_over = (exchange.is_over and not self._even_if_lost) or self._is_over()
        except KafkaError as error:
            exchange.reply(exchange.refusal(error))
        else:
            if not is_over:
                self._turn.wait(self, is_new=False)

    def _is_over(self) -> bool:
        """Does a slice; returns whether nothing is left. An error that is a bug is the response, as in the dispatcher."""
        try:
            return self._is_done()
        except KafkaError:
            raise
        except Exception as error:  # noqa: BLE001 - one failed request must not take the connection down
            self._exchange.fail(error)
            return True

    def _is_done(self) -> bool:
        """Whether the work is finished after this slice."""
        left = SLICE_PIECES
        for _ in self._pieces:
            left -= 1
            if not left or not self._turn.has_time():
                return False
        return True
