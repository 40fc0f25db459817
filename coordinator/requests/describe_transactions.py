"""DescribeTransactions (key 65): the state of transactional ids, in the order of the request (KIP-664)."""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from coordinator.security.access import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from coordinator.transactions.describe import describe

_State = DescribeTransactionsResponse.TransactionState


def handle(server: Server, exchange: Exchange[DescribeTransactionsRequest]) -> None:
    request = exchange.request

    def combine(parts: list[DescribeTransactionsResponse]) -> DescribeTransactionsResponse:
        states = {state.transactional_id: state for part in parts for state in part.transaction_states}
        return DescribeTransactionsResponse(transaction_states=[states[each] for each in request.transactional_ids])

    server.transactions.gather_by_group(dict.fromkeys(request.transactional_ids), describe, exchange, combine)


def refuse(request: DescribeTransactionsRequest, error: KafkaError, _api_version: int) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_State(error.code, transactional_id) for transactional_id in request.transactional_ids]
    )


API = Api(
    key=65,
    name="DescribeTransactions",
    versions=(0, 0),
    access=(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
)
