"""DescribeTransactions (key 65): the state of transactional ids, in the order of the request (KIP-664).

A client gets the partitions of the topics that it may describe.
"""

from coordinator.api import Api, Coordinator, Exchange, Pieces, Server
from coordinator.api.error_families import COORDINATOR_ERRORS
from coordinator.api.guards import allowed_in_pieces
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from coordinator.security.access import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from coordinator.transactions.describe import describe

_State = DescribeTransactionsResponse.TransactionState


def handle(server: Server, exchange: Exchange[DescribeTransactionsRequest]) -> None:
    exchange.run_in_slices(_describe(server, exchange))


def _describe(server: Server, exchange: Exchange[DescribeTransactionsRequest]) -> Pieces:
    yield  # decoding has taken some milliseconds
    request = exchange.request
    permits = exchange.permits
    named = list(dict.fromkeys(request.transactional_ids))
    allowed = yield from allowed_in_pieces(permits, DESCRIBE_TRANSACTIONAL_ID, named)

    def combine(parts: list[DescribeTransactionsResponse]) -> DescribeTransactionsResponse:
        states = {state.transactional_id: state for part in parts for state in part.transaction_states}
        for transactional_id in request.transactional_ids:
            if transactional_id not in allowed:
                states[transactional_id] = _State(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id)
        for state in states.values():
            state.topics = [topic for topic in state.topics if permits.allows(DESCRIBE_TOPIC, topic.topic, quiet=True)]
        return DescribeTransactionsResponse(transaction_states=[states[each] for each in request.transactional_ids])

    server.transactions.gather_by_group(sorted(allowed), describe, exchange, combine, refused=_refused)


def refuse(request: DescribeTransactionsRequest, error: KafkaError, _api_version: int) -> DescribeTransactionsResponse:
    return _refused(request.transactional_ids, error.code)


def _refused(transactional_ids: list[str], error: ErrorCode) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=[_State(error, each) for each in transactional_ids])


_ERRORS = COORDINATOR_ERRORS | {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
}  # fmt: skip

API = Api(
    key=65,
    name="DescribeTransactions",
    versions=(0, 0),
    access=(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC),
    handle=handle,
    refuse=refuse,
    writes=False,
    errors=_ERRORS,
    elements=("transactional_ids",),
    coordinator=Coordinator.TRANSACTION,
)
