"""CreateTopics (key 19): creates topics (topics/create.py). Answered when they exist, whatever `timeoutMs` says."""

from collections.abc import Callable
from functools import partial

from coordinator.api import Api, Exchange, Forwarded, Permits, Pieces, QuotaType, Server
from coordinator.api.error_families import CONTROLLER_ERRORS, TOPIC_ERRORS
from coordinator.api.guards import ask_in_slices, named_once, with_topics
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from coordinator.security.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS
from coordinator.topics.create import create_topics, hide_configs, refusal
from coordinator.topics.names import CLUSTER_METADATA

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def handle(server: Server, exchange: Exchange[CreateTopicsRequest]) -> None:
    _create(server, exchange, exchange.request, exchange.reply_in_slices)


def guard(server: Server, exchange: Exchange[CreateTopicsRequest], permits: Permits) -> None:
    """A name that is there twice or that is Kafka's own is refused for that, whoever asks (`ControllerApis.createTopics`)."""
    request = exchange.request
    asked = [name for name in named_once(topic.name for topic in request.topics) if name != CLUSTER_METADATA]

    def show(allowed: frozenset[str]) -> None:
        create = partial(_create_allowed, server, exchange, asked, allowed)
        ask_in_slices(exchange, permits, DESCRIBE_TOPIC_CONFIGS, asked, create, quiet=True)

    if permits.allows(CREATE_CLUSTER, quiet=True):
        show(frozenset(asked))
    else:
        ask_in_slices(exchange, permits, CREATE_TOPIC, asked, show)


def _create_allowed(
    server: Server,
    exchange: Exchange[CreateTopicsRequest],
    asked: list[str],
    allowed: frozenset[str],
    described: frozenset[str],
) -> None:
    """Creates what is allowed, and shows the configs of those topics whose configs the client may describe."""
    request = exchange.request
    denied = dict.fromkeys(name for name in asked if name not in allowed)

    def reply(response: CreateTopicsResponse) -> None:
        for result in response.topics:
            if result.error_code == ErrorCode.NONE and result.name not in described:
                hide_configs(result)
        response.topics += [refusal(name, KafkaError(_DENIED, "Authorization failed.")) for name in denied]
        exchange.reply_in_slices(response)

    rest = [topic for topic in request.topics if topic.name not in denied]
    _create(server, exchange, with_topics(request, rest), reply)


def _create(
    server: Server,
    exchange: Exchange[CreateTopicsRequest],
    request: CreateTopicsRequest,
    reply: Callable[[CreateTopicsResponse], None],
) -> None:
    def run(pieces: Pieces) -> None:
        exchange.run_in_slices(pieces, even_if_lost=True)

    create_topics(server.topics, request, reply, exchange.count_mutation, run)


def refuse(request: CreateTopicsRequest, error: KafkaError, _api_version: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[refusal(topic.name, error) for topic in request.topics])


_ERRORS = CONTROLLER_ERRORS | TOPIC_ERRORS | {
    ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.INVALID_CONFIG,
}  # fmt: skip

API = Api(
    key=19,
    name="CreateTopics",
    versions=(2, 7),
    access=(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=_ERRORS,
    elements=("topics",),
    quotas=frozenset({QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION}),
    mutations_strict_since=6,
    overlay=Forwarded(changes_topics=True),
)
