"""InitProducerId: a producer id for an idempotent producer; one that was never given before, whatever was restarted.

A producer that names the id and epoch it had gets a new id all the same, as in Kafka: only transactions keep theirs.
Transactions are not served. A transactional id is refused for good (INVALID_REQUEST), because every retriable answer
would keep its client asking for ever.
"""

from typing import Any

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from coordinator.requests.api import Access, Api, Operation, Resource
from coordinator.requests.exchange import Exchange

_NONE = -1


def handle(server: Any, exchange: Exchange) -> None:
    request: InitProducerIdRequest = exchange.request
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    def given(error: ErrorCode, producer_id: int) -> None:
        epoch = 0 if error is ErrorCode.NONE else _NONE
        exchange.reply(InitProducerIdResponse(error_code=error, producer_id=producer_id, producer_epoch=epoch))

    server.topics.next_producer_id(given)


def refuse(_request: InitProducerIdRequest, error: KafkaError, _api_version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=_NONE, producer_epoch=_NONE)


API = Api(
    key=22,
    name="InitProducerId",
    versions=(0, 5),
    access=Access(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER),
    handle=handle,
    refuse=refuse,
)
