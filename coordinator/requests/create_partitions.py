"""CreatePartitions (key 37): adds partitions to topics (topics/create_partitions.py). Answered when the partitions exist."""

from coordinator.api import Api, Exchange, Forwarded, Permits, QuotaType, Server
from coordinator.api.error_families import CONTROLLER_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import ask_in_slices, named_once, with_topics
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from coordinator.security.access import ALTER_TOPIC
from coordinator.topics.create_partitions import create_partitions, refusal


def handle(server: Server, exchange: Exchange[CreatePartitionsRequest]) -> None:
    create_partitions(server.topics, exchange.request, exchange.reply, exchange.count_mutation)


def guard(server: Server, exchange: Exchange[CreatePartitionsRequest], permits: Permits) -> None:
    """A name that is there twice is refused for that, whoever asks (`ControllerApis.createPartitions`)."""
    request = exchange.request
    once = named_once(topic.name for topic in request.topics)

    def create(allowed: frozenset[str]) -> None:
        denied = dict.fromkeys(name for name in once if name not in allowed)
        refused = [refusal(name, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) for name in denied]

        def reply(response: CreatePartitionsResponse) -> None:
            response.results = refused + response.results
            exchange.reply(response)

        rest = [topic for topic in request.topics if topic.name not in denied]
        create_partitions(server.topics, with_topics(request, rest), reply, exchange.count_mutation)

    ask_in_slices(exchange, permits, ALTER_TOPIC, once, create)


def refuse(request: CreatePartitionsRequest, error: KafkaError, _api_version: int) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[refusal(topic.name, error) for topic in request.topics])


_ERRORS = CONTROLLER_ERRORS | TOPIC_ERRORS | {
    ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.REASSIGNMENT_IN_PROGRESS,
}  # fmt: skip

API = Api(
    key=37,
    name="CreatePartitions",
    versions=(0, 3),
    access=(ALTER_TOPIC,),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=_ERRORS,
    elements=("topics",),
    quotas=frozenset({QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION}),
    mutations_strict_since=3,
    overlay=Forwarded(changes_topics=True),
)
