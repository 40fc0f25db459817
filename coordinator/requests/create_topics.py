"""CreateTopics (key 19): creates topics (topics/create.py). Answered when they exist, whatever `timeoutMs` says."""

from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import KafkaError
from coordinator.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from coordinator.security.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS
from coordinator.topics.create import create_topics, refusal


def handle(server: Server, exchange: Exchange[CreateTopicsRequest]) -> None:
    create_topics(server.topics, exchange.request, exchange.reply, exchange.count_mutation)


def refuse(request: CreateTopicsRequest, error: KafkaError, _api_version: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[refusal(topic.name, error) for topic in request.topics])


API = Api(
    key=19,
    name="CreateTopics",
    versions=(2, 7),
    access=(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
    handle=handle,
    refuse=refuse,
)
