"""DeleteRecords (key 21): moves the start of partitions forward (KIP-107; topics/delete_records.py)."""

from coordinator.api import Api, Exchange, Permits, Server
from coordinator.api.error_families import LEADER_ERRORS
from coordinator.api.guards import ask_in_slices
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from coordinator.security.access import DELETE_TOPIC
from coordinator.topics.delete_records import delete_records, refusal


def handle(server: Server, exchange: Exchange[DeleteRecordsRequest]) -> None:
    exchange.reply(delete_records(server.topics, exchange.request))


def guard(server: Server, exchange: Exchange[DeleteRecordsRequest], permits: Permits) -> None:
    request = exchange.request

    def delete(allowed: frozenset[str]) -> None:
        exchange.reply(delete_records(server.topics, request, allowed.__contains__))

    ask_in_slices(exchange, permits, DELETE_TOPIC, (topic.name for topic in request.topics), delete)


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
    errors=LEADER_ERRORS | {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.POLICY_VIOLATION},
    elements=("topics.partitions",),
)
