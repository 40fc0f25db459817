"""DeleteTopics (key 20): deletes topics by name, from v6 on also by id (KIP-516; topics/delete.py).

Answered when the topics are gone.
"""

from functools import partial

from coordinator.api import Api, Exchange, Forwarded, Permits, QuotaType, Server
from coordinator.api.error_families import CONTROLLER_ERRORS, TOPIC_ERRORS
from coordinator.groups.administration import asked_by
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse
from coordinator.security.access import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC
from coordinator.topics.delete import Rights, delete_topics, wanted


def handle(server: Server, exchange: Exchange[DeleteTopicsRequest]) -> None:
    _delete(server, exchange, Rights())


def guard(server: Server, exchange: Exchange[DeleteTopicsRequest], permits: Permits) -> None:
    """Who may delete the cluster may delete all of its topics (`ControllerApis.deleteTopics`)."""
    if permits.allows(DELETE_CLUSTER, quiet=True):
        handle(server, exchange)
        return
    _delete(server, exchange, Rights(partial(permits.allows, DESCRIBE_TOPIC), partial(permits.allows, DELETE_TOPIC)))


def _delete(server: Server, exchange: Exchange[DeleteTopicsRequest], rights: Rights) -> None:
    delete_topics(
        server.topics,
        exchange.request,
        exchange.api_version,
        exchange.reply_in_slices,
        rights,
        exchange.count_mutation,
        partial(exchange.run_in_slices, even_if_lost=True),
        asked_by(exchange),
    )


def refuse(request: DeleteTopicsRequest, error: KafkaError, _api_version: int) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeleteTopicsResponse.DeletableTopicResult(
                name=entry.name, topic_id=entry.topic_id, error_code=error.code, error_message=error.message
            )
            for entry in wanted(request)
        ]
    )


API = Api(
    key=20,
    name="DeleteTopics",
    versions=(1, 6),
    access=(DELETE_CLUSTER, DESCRIBE_TOPIC, DELETE_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=CONTROLLER_ERRORS | TOPIC_ERRORS | {ErrorCode.TOPIC_DELETION_DISABLED},
    elements=("topics", "topic_names"),
    quotas=frozenset({QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION}),
    mutations_strict_since=5,
    overlay=Forwarded(changes_topics=True),
)
