"""DeleteRecords: see topics/delete_records.py."""

from typing import Any

from coordinator.api.declaration import Access, Api, Operation, Resource
from coordinator.api.exchange import Exchange
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from coordinator.topics.delete_records import delete_records, refusal


def handle(server: Any, exchange: Exchange) -> None:
    exchange.reply(delete_records(server.topics, exchange.request))


def refuse(request: DeleteRecordsRequest, error: KafkaError, _api_version: int) -> DeleteRecordsResponse:
    return refusal(request, error)


API = Api(
    key=21,
    name="DeleteRecords",
    versions=(0, 2),
    access=Access(Operation.DELETE, Resource.TOPIC),
    handle=handle,
    refuse=refuse,
)
