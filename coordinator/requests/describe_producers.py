"""DescribeProducers (key 61): the producers that have written to partitions (KIP-664; topics/describe_producers.py)."""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import DescribeProducersRequest, DescribeProducersResponse
from coordinator.security.access import READ_TOPIC
from coordinator.topics.describe_producers import describe_producers, refusal


def handle(server: Server, exchange: Exchange[DescribeProducersRequest]) -> None:
    describe_producers(server.topics, exchange.request, exchange.reply)


def refuse(request: DescribeProducersRequest, error: KafkaError, _api_version: int) -> DescribeProducersResponse:
    return refusal(request, error.code, error.message)


API = Api(
    key=61,
    name="DescribeProducers",
    versions=(0, 0),
    access=(READ_TOPIC,),
    handle=handle,
    refuse=refuse,
    writes=False,
)
