"""InitProducerId (key 22): a producer id that was never given before, also across restarts (KIP-98).

With a transactional id it makes the client the only producer of that id (transactions/init_producer_id.py). An idempotent
producer that names its previous id and epoch gets a new id anyway, as in Kafka. v4 answers PRODUCER_FENCED, earlier versions
INVALID_PRODUCER_EPOCH (KIP-588). A client that may write to some topic needs no IDEMPOTENT_WRITE (KIP-679). v6 (two-phase
commit, KIP-939) is unstable in Kafka and not supported here.
"""

from functools import partial

from coordinator.api import Api, Coordinator, Exchange, Permits, Server
from coordinator.api.error_families import TRANSACTION_ERRORS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from coordinator.security.access import IDEMPOTENT_WRITE, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from coordinator.transactions.init_producer_id import init_producer_id

_NONE = -1
_FENCED_SINCE = 4


def handle(server: Server, exchange: Exchange[InitProducerIdRequest]) -> None:
    request = exchange.request
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        submit = partial(server.transactions.submit, request.transactional_id, init_producer_id, exchange)
        server.producer_ids.ready(submit)
        return

    def on_id(error: ErrorCode, producer_id: int) -> None:
        epoch = 0 if error is ErrorCode.NONE else _NONE
        exchange.reply(InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch))

    server.topics.next_producer_id(on_id)


def guard(server: Server, exchange: Exchange[InitProducerIdRequest], permits: Permits) -> None:
    transactional_id = exchange.request.transactional_id
    if transactional_id is not None:
        permits.require(WRITE_TRANSACTIONAL_ID, transactional_id)
    elif not permits.allows(IDEMPOTENT_WRITE, quiet=True) and not permits.allows_any(WRITE_TOPIC):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    handle(server, exchange)


def refuse(_request: InitProducerIdRequest, error: KafkaError, api_version: int) -> InitProducerIdResponse:
    code = translate_fenced(error.code, api_version, _FENCED_SINCE)
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


def translate_fenced(code: ErrorCode, api_version: int, since: int) -> ErrorCode:
    """Replaces PRODUCER_FENCED by INVALID_PRODUCER_EPOCH for clients of a version before `since`."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


API = Api(
    key=22,
    name="InitProducerId",
    versions=(0, 5),
    access=(WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE, WRITE_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=TRANSACTION_ERRORS | {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TRANSACTION_TIMEOUT},
    coordinator=Coordinator.TRANSACTION,
)
