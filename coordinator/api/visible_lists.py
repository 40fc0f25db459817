"""The lists of ListGroups and ListTransactions: everything that the shards have, or what of it the client may see.

There may be many elements, and each permission is looked up, so that a part is chosen in slices.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

from coordinator.api.exchange import Exchange
from coordinator.api.sliced_work import Pieces
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import Message
from coordinator.runtime.internal_request import InternalRequest
from coordinator.runtime.router import Router

PIECE_ELEMENTS = 100
"""A permission that was not asked for before takes about ten microseconds among a thousand ACLs."""

E = TypeVar("E")


def reply_with_list(
    shards: Router[Any],
    view: Callable[[Any, int], list[E]],
    exchange: Exchange[Any],
    response: Callable[[list[E]], Message],
    may_see: Callable[[E], bool] | None,
) -> None:
    """Answers `response(elements)` with those of all shards. `may_see`: whether an element is for the client; None: all are."""

    def combine(parts: list[list[E]]) -> Message:
        return response(list(chain.from_iterable(parts)))

    if may_see is None:
        shards.gather(view, exchange, combine)
        return
    chosen = may_see

    def on_listed(parts: list[list[E]] | KafkaError) -> None:
        if isinstance(parts, KafkaError):
            exchange.fail(parts)
        elif not exchange.is_over:
            exchange.run_in_slices(choose(list(chain.from_iterable(parts))))

    def choose(elements: list[E]) -> Pieces:
        visible: list[E] = []
        for start in range(0, len(elements), PIECE_ELEMENTS):
            visible += filter(chosen, elements[start : start + PIECE_ELEMENTS])
            yield
        exchange.reply_in_slices(response(visible))

    def unchanged(parts: list[list[E]]) -> Any:
        return parts

    shards.gather(view, _Listing(exchange, on_listed), unchanged)


class _Listing(InternalRequest):
    """The request for all elements, whose work is shared out like that of the client's request."""

    def __init__(self, exchange: Exchange[Any], on_listed: Callable[[Any], None]) -> None:
        super().__init__(None, on_listed, writes=False)
        self._exchange = exchange

    def run_in_slices(self, pieces: Pieces, *, even_if_lost: bool = False) -> None:
        self._exchange.run_in_slices(pieces, even_if_lost=even_if_lost)

    def reply_in_slices(self, message: Message) -> None:
        self.send(message)
