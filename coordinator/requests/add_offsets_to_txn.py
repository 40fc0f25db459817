"""AddOffsetsToTxn (key 25): a transaction is about to commit offsets of a group.

The partition of `__consumer_offsets` that holds the group joins the transaction. v2 answers PRODUCER_FENCED. Clients of
transaction.version 2 do not send this request: TxnOffsetCommit v5 adds the partition by itself (KIP-890).
"""

from coordinator.api import Api, Coordinator, Exchange, Permits, Server
from coordinator.api.error_families import TRANSACTION_ERRORS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from coordinator.requests.init_producer_id import translate_fenced
from coordinator.runtime.result import Producer, RequestContext, Result
from coordinator.security.access import READ_GROUP, WRITE_TRANSACTIONAL_ID
from coordinator.topics.names import CONSUMER_OFFSETS
from coordinator.transactions.add_partitions import Addition, add_partitions
from coordinator.transactions.state import Transactions

_FENCED_SINCE = 2


def handle(server: Server, exchange: Exchange[AddOffsetsToTxnRequest]) -> None:
    request = exchange.request
    partition = (CONSUMER_OFFSETS, server.groups.shard_of(request.group_id).index)
    producer = Producer(request.producer_id, request.producer_epoch)
    addition = Addition(request.transactional_id, producer, [partition], 0)

    def operation(
        state: Transactions, _request: AddOffsetsToTxnRequest, context: RequestContext, now_ms: int
    ) -> Result:
        result = add_partitions(state, addition, context, now_ms)
        result.reply = AddOffsetsToTxnResponse()
        return result

    server.transactions.submit(request.transactional_id, operation, exchange)


def guard(server: Server, exchange: Exchange[AddOffsetsToTxnRequest], permits: Permits) -> None:
    permits.require(WRITE_TRANSACTIONAL_ID, exchange.request.transactional_id)
    permits.require(READ_GROUP, exchange.request.group_id)
    handle(server, exchange)


def refuse(_request: AddOffsetsToTxnRequest, error: KafkaError, api_version: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=translate_fenced(error.code, api_version, _FENCED_SINCE))


API = Api(
    key=25,
    name="AddOffsetsToTxn",
    versions=(0, 4),
    access=(WRITE_TRANSACTIONAL_ID, READ_GROUP),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=TRANSACTION_ERRORS | {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID},
    coordinator=Coordinator.TRANSACTION,
)
