"""ListTransactions: the transactional ids that pass all filters (TransactionStateManager.listTransactionStates).

States have Kafka's names. An unknown name matches no id, and the response lists it. The duration filter compares the time since
the transaction began; an id that never had a transaction counts as begun at -1, before all time, and passes, as in Kafka.
Patterns are matched by RE2, in which no pattern can take long; it has no look-around.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import re2

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import BY_NAME, State, Transaction

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class Filters(NamedTuple):
    """The filters of a request. An empty set, None and -1 match everything."""

    states: frozenset[State]
    names_states: bool
    """Whether the request names any states, known or not."""
    producer_ids: frozenset[int]
    open_ms_min: int
    pattern: Any
    """A compiled pattern, which must match the whole id."""


def parse_filters(
    state_names: list[str], producer_ids: list[int], open_ms_min: int, pattern: str | None
) -> tuple[Filters, list[str]]:
    """Returns the filters, and the unknown names of states. Raises INVALID_REGULAR_EXPRESSION."""
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


def matching(transactions: Transactions, filters: Filters, now_ms: int) -> Iterator[Transaction]:
    """The transactional ids of a shard that pass all filters."""
    for transaction in transactions.by_id.values():
        if filters.producer_ids and transaction.producer_id not in filters.producer_ids:
            continue
        if filters.names_states and transaction.state not in filters.states:
            continue
        if filters.open_ms_min >= 0 and now_ms - transaction.start_ms <= filters.open_ms_min:
            continue
        if filters.pattern is not None and filters.pattern.fullmatch(transaction.transactional_id) is None:
            continue
        yield transaction
