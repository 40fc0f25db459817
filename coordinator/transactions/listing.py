"""ListTransactions: the transactional ids that pass all filters (TransactionStateManager.listTransactionStates).

States have Kafka's names. An unknown name matches no id, and the response lists it. The duration filter compares the time since
the transaction began; an id that never had a transaction counts as begun at -1, before all time, and passes, as in Kafka.
A pattern (RE2 syntax, must match the whole id) is matched against the ids of all shards at once, outside the loop
(requests/list_transactions.py).
"""

from collections.abc import Iterator
from typing import NamedTuple

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.patterns import BadPattern, compile_pattern
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import BY_NAME, State, Transaction


class Filters(NamedTuple):
    """The filters of a request. An empty set, None and -1 match everything."""

    states: frozenset[State]
    names_states: bool
    """Whether the request names any states, known or not."""
    producer_ids: frozenset[int]
    open_ms_min: int


def check_pattern(pattern: str, bytes_max: int) -> None:
    """Raises INVALID_REGULAR_EXPRESSION for a pattern that is malformed, or takes more memory than `bytes_max`."""
    try:
        compile_pattern(pattern, bytes_max)
    except BadPattern as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern} is not a valid pattern: {error}") from error


def parse_filters(state_names: list[str], producer_ids: list[int], open_ms_min: int) -> tuple[Filters, list[str]]:
    """Returns the filters, and the unknown names of states."""
    known = frozenset(BY_NAME[name] for name in state_names if name in BY_NAME)
    unknown = [name for name in dict.fromkeys(state_names) if name not in BY_NAME]
    return Filters(known, bool(state_names), frozenset(producer_ids), open_ms_min), unknown


def matching(transactions: Transactions, filters: Filters, now_ms: int) -> Iterator[Transaction]:
    """The transactional ids of a shard that pass all filters."""
    for transaction in transactions.by_id.values():
        if filters.producer_ids and transaction.producer_id not in filters.producer_ids:
            continue
        if filters.names_states and transaction.state not in filters.states:
            continue
        if filters.open_ms_min >= 0 and now_ms - transaction.start_ms <= filters.open_ms_min:
            continue
        yield transaction
