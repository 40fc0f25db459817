"""ListTransactions (key 66): every transactional id that passes the filters (KIP-664).

v1 filters by the time since the transaction began (KIP-994), v2 by a regular expression of the id (KIP-1152).
A client gets the ids that it may describe.
"""

from collections.abc import Callable

from coordinator.api import Api, Exchange, Forwarded, Server
from coordinator.api.error_families import COORDINATOR_ERRORS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ListTransactionsRequest, ListTransactionsResponse
from coordinator.protocol.patterns import Matched
from coordinator.requests.list_groups import reply_with_list
from coordinator.security.access import DESCRIBE_TRANSACTIONAL_ID
from coordinator.transactions.listing import check_pattern, matching, parse_filters
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import NAMES

_State = ListTransactionsResponse.TransactionState


def handle(server: Server, exchange: Exchange[ListTransactionsRequest]) -> None:
    request, permits, pattern = exchange.request, exchange.permits, exchange.request.transactional_id_pattern
    if pattern:
        check_pattern(pattern, server.config.groups.limit_pattern_bytes)
    filters, unknown = parse_filters(request.state_filters, request.producer_id_filters, request.duration_filter)

    def view(transactions: Transactions, now_ms: int) -> list[_State]:
        return [
            _State(transaction.transactional_id, transaction.producer_id, NAMES[transaction.state])
            for transaction in matching(transactions, filters, now_ms)
        ]

    def response(states: list[_State]) -> ListTransactionsResponse:
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states)

    def may_see(state: _State) -> bool:
        return permits.allows(DESCRIBE_TRANSACTIONAL_ID, state.transactional_id, quiet=True)

    def match(states: list[_State], proceed: Callable[[list[_State]], None]) -> None:
        def on_matched(matched: Matched) -> None:
            found = matched.get(pattern or "") or ()
            proceed([state for state in states if state.transactional_id in found])

        ids = [state.transactional_id for state in states]
        server.match_patterns((pattern or "",), ids, None, on_matched, lambda: not exchange.is_over)

    reply_with_list(
        server.transactions,
        view,
        exchange,
        response,
        may_see=None if permits.everything else may_see,
        match=match if pattern else None,
    )


API = Api(
    key=66,
    name="ListTransactions",
    versions=(0, 2),
    access=(DESCRIBE_TRANSACTIONAL_ID,),
    handle=handle,
    writes=False,
    errors=COORDINATOR_ERRORS | {ErrorCode.INVALID_REGULAR_EXPRESSION},
    overlay=Forwarded(is_ours_on_main=True),
)
