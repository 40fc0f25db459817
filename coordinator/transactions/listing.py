"""ListTransactions: the transactional ids of a shard that pass all filters.

States are named as Kafka names them, and a name that is none passes nobody; the API tells the asker which names those were.
The duration filter is about the time since the transaction began: an id that never had one began at -1, before all time, and
passes, as in Kafka. Patterns are matched by RE2, so no pattern can be made to take long; it knows no look-around.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import re2

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.transactions.transaction import BY_NAME, State, Transaction

if TYPE_CHECKING:
    from coordinator.transactions.transactions import Transactions

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class Filters(NamedTuple):
    """What is asked for; an empty set, None and -1 let all pass."""

    states: frozenset[State]
    names_states: bool
    """Whether states were named at all, known or not."""
    producer_ids: frozenset[int]
    open_ms_min: int
    pattern: Any
    """A compiled pattern that must match the whole id."""


def filters(
    state_names: list[str], producer_ids: list[int], open_ms_min: int, pattern: str | None
) -> tuple[Filters, list[str]]:
    """The filters, and the names that are no states. Raises INVALID_REGULAR_EXPRESSION."""
    compiled = None
    if pattern:
        try:
            compiled = re2.compile(pattern, _OPTIONS)
        except re2.error as error:
            raise KafkaError(
                ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern} is not a valid pattern: {error}"
            ) from error
    known = frozenset(BY_NAME[name] for name in state_names if name in BY_NAME)
    unknown = [name for name in dict.fromkeys(state_names) if name not in BY_NAME]
    return Filters(known, bool(state_names), frozenset(producer_ids), open_ms_min, compiled), unknown


def found(transactions: "Transactions", wanted: Filters, now_ms: int) -> Iterator[Transaction]:
    for transaction in transactions.by_id.values():
        if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
            continue
        if wanted.names_states and transaction.state not in wanted.states:
            continue
        if wanted.open_ms_min >= 0 and now_ms - transaction.start_ms <= wanted.open_ms_min:
            continue
        if wanted.pattern is not None and wanted.pattern.fullmatch(transaction.transactional_id) is None:
            continue
        yield transaction
