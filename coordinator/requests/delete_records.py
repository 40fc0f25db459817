"""DeleteRecords (key 21): moves the start of partitions forward (KIP-107; topics/delete_records.py)."""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.guards import allowed_names
from coordinator.api.permits import Permits
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from coordinator.security.access import DELETE_TOPIC
from coordinator.topics.delete_records import delete_records, refusal


def handle(server: Server, exchange: Exchange[DeleteRecordsRequest]) -> None:
    exchange.reply(delete_records(server.topics, exchange.request))


def guard(server: Server, exchange: Exchange[DeleteRecordsRequest], permits: Permits) -> None:
    request = exchange.request
    allowed = allowed_names(permits, DELETE_TOPIC, (topic.name for topic in request.topics))
    exchange.reply(delete_records(server.topics, request, lambda name: name in allowed))


def refuse(request: DeleteRecordsRequest, error: KafkaError, _api_version: int) -> DeleteRecordsResponse:
    return refusal(request, error)


API = Api(
    key=21,
    name="DeleteRecords",
    versions=(0, 2),
    access=(DELETE_TOPIC,),
    handle=handle,
    refuse=refuse,
    guard=guard,
)
