"""InitProducerId (key 22): a producer id that was never given before, whatever was restarted; with a transactional id, the
right to be its only producer (transactions/init_producer_id.py).

An idempotent producer that names the id and epoch it had gets a new id all the same, as in Kafka.
v4 knows PRODUCER_FENCED, before it is INVALID_PRODUCER_EPOCH; v6 (two-phase commit, KIP-939) is not stable in Kafka either.
"""

from functools import partial

from coordinator.api.access import IDEMPOTENT_WRITE, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
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

    def given(error: ErrorCode, producer_id: int) -> None:
        epoch = 0 if error is ErrorCode.NONE else _NONE
        exchange.reply(InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch))

    server.topics.next_producer_id(given)


def refuse(_request: InitProducerIdRequest, error: KafkaError, api_version: int) -> InitProducerIdResponse:
    code = fenced_as_known(error.code, api_version, _FENCED_SINCE)
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


def fenced_as_known(code: ErrorCode, api_version: int, since: int) -> ErrorCode:
    """PRODUCER_FENCED, or what a client says for it that speaks an earlier version than `since`."""
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
)
