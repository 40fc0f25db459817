"""DescribeProducers (key 61): the producers that have written to partitions (KIP-664; topics/describe_producers.py)."""

from coordinator.api import Api, Exchange, Permits, Server
from coordinator.api.error_families import LEADER_ERRORS
from coordinator.api.guards import ask_in_slices
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import DescribeProducersRequest, DescribeProducersResponse
from coordinator.security.access import READ_TOPIC
from coordinator.topics import names
from coordinator.topics.describe_producers import describe_producers, refusal


def handle(server: Server, exchange: Exchange[DescribeProducersRequest]) -> None:
    describe_producers(server.topics, exchange.request, exchange.reply)


def guard(server: Server, exchange: Exchange[DescribeProducersRequest], permits: Permits) -> None:
    """Names that no topic can have are refused before anybody is asked, as in Kafka."""
    request = exchange.request
    legal = (topic.name for topic in request.topics if names.why_invalid(topic.name) is None)

    def describe(allowed: frozenset[str]) -> None:
        describe_producers(server.topics, request, exchange.reply, allowed.__contains__)

    ask_in_slices(exchange, permits, READ_TOPIC, legal, describe)


def refuse(request: DescribeProducersRequest, error: KafkaError, _api_version: int) -> DescribeProducersResponse:
    return refusal(request, error.code, error.message)


API = Api(
    key=61,
    name="DescribeProducers",
    versions=(0, 0),
    access=(READ_TOPIC,),
    handle=handle,
    refuse=refuse,
    guard=guard,
    writes=False,
    errors=LEADER_ERRORS,
    elements=("topics.partition_indexes",),
)
