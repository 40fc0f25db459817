"""ListTransactions (key 66): every transactional id that passes the filters (KIP-664).

v1 filters by the time since the transaction began (KIP-994), v2 by a regular expression of the id (KIP-1152).
A client gets the ids that it may describe.
"""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.api.visible_lists import reply_with_list
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import ListTransactionsRequest, ListTransactionsResponse
from coordinator.security.access import DESCRIBE_TRANSACTIONAL_ID
from coordinator.transactions.listing import matching, parse_filters
from coordinator.transactions.state import Transactions
from coordinator.transactions.transaction import NAMES

_State = ListTransactionsResponse.TransactionState


def handle(server: Server, exchange: Exchange[ListTransactionsRequest]) -> None:
    request, permits = exchange.request, exchange.permits
    filters, unknown = parse_filters(
        request.state_filters, request.producer_id_filters, request.duration_filter, request.transactional_id_pattern
    )

    def view(transactions: Transactions, now_ms: int) -> list[_State]:
        return [
            _State(transaction.transactional_id, transaction.producer_id, NAMES[transaction.state])
            for transaction in matching(transactions, filters, now_ms)
        ]

    def response(states: list[_State]) -> ListTransactionsResponse:
        return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states)

    def may_see(state: _State) -> bool:
        return permits.allows(DESCRIBE_TRANSACTIONAL_ID, state.transactional_id, quiet=True)

    reply_with_list(server.transactions, view, exchange, response, None if permits.everything else may_see)


def refuse(_request: ListTransactionsRequest, error: KafkaError, _api_version: int) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)


API = Api(
    key=66,
    name="ListTransactions",
    versions=(0, 2),
    access=(DESCRIBE_TRANSACTIONAL_ID,),
    handle=handle,
    refuse=refuse,
    writes=False,
)
