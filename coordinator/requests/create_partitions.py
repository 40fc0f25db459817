"""CreatePartitions (key 37): adds partitions to topics (topics/create_partitions.py). Answered when the partitions exist."""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from coordinator.security.access import ALTER_TOPIC
from coordinator.topics.create_partitions import create_partitions, refusal


def handle(server: Server, exchange: Exchange[CreatePartitionsRequest]) -> None:
    create_partitions(server.topics, exchange.request, exchange.reply, exchange.count_mutation)


def refuse(request: CreatePartitionsRequest, error: KafkaError, _api_version: int) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[refusal(topic.name, error) for topic in request.topics])


API = Api(
    key=37,
    name="CreatePartitions",
    versions=(0, 3),
    access=(ALTER_TOPIC,),
    handle=handle,
    refuse=refuse,
)
