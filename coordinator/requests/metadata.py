"""Metadata (key 3): the cluster's one node, and topics with their partitions.

Null selects all topics, an empty list none; v0 has no null, and there the empty list selects all. v12 may name a topic by its
id (KIP-516): as soon as one entry has an id, entries without one are ignored, as in Kafka.

A missing topic is created if both the client and `auto.create.topics.enable` allow it. The response does not wait for that:
it carries UNKNOWN_TOPIC_OR_PARTITION, as Kafka's does, and the client asks again until the topic exists.

A partition whose log is damaged has no leader and LEADER_NOT_AVAILABLE, as in Kafka one whose log directory is offline.
"""

from collections.abc import Iterable

from coordinator.api import authorized_operations
from coordinator.api.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER, DESCRIBE_TOPIC
from coordinator.api.declaration import Api
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import MetadataRequest, MetadataResponse
from coordinator.topics import names
from coordinator.topics.engine import LEADER_EPOCH, NO_LEADER
from coordinator.topics.registry import NO_ID, Topic

_IDS_SINCE = 12


def handle(server: Server, exchange: Exchange[MetadataRequest]) -> None:
    request = exchange.request
    version = exchange.api_version
    if request.topics and version < _IDS_SINCE and any(t.name is None or t.topic_id != NO_ID for t in request.topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.topics and any(t.name is None and t.topic_id == NO_ID for t in request.topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    host, port = exchange.advertised
    response = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=server.node_id, host=host, port=port)],
        cluster_id=server.cluster_id,
        controller_id=server.node_id,
        topics=list(_topics(server, request, version)),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations.CLUSTER
    exchange.reply(response)


def refuse(request: MetadataRequest, error: KafkaError, _api_version: int) -> MetadataResponse:
    return MetadataResponse(
        error_code=error.code,
        topics=[
            MetadataResponse.MetadataResponseTopic(error_code=error.code, name=t.name or "", topic_id=t.topic_id)
            for t in request.topics or ()
        ],
    )


def _topics(server: Server, request: MetadataRequest, version: int) -> Iterable[MetadataResponse.MetadataResponseTopic]:
    registry = server.topics.registry
    operations = (
        authorized_operations.TOPIC
        if request.include_topic_authorized_operations
        else authorized_operations.NOT_REQUESTED
    )
    named = request.topics
    if named is None or (version == 0 and not named):
        for topic in registry.topics.values():
            if topic.name not in names.UNLISTED:
                yield _described(topic, server, operations)
        return
    ids = dict.fromkeys(t.topic_id for t in named if t.topic_id != NO_ID)
    if ids:
        known = [registry.by_id[topic_id] for topic_id in ids if topic_id in registry.by_id]
        for topic_id in ids:
            if topic_id not in registry.by_id:
                yield MetadataResponse.MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
                )
        for topic in known:
            yield _described(topic, server, operations)
        return
    missing: list[str] = []
    for name in dict.fromkeys(t.name for t in named if t.name is not None):
        found = registry.topics.get(name)
        if found is not None:
            yield _described(found, server, operations)
            continue
        wrong = names.why_invalid(name) is not None
        if not wrong:
            missing.append(name)
        yield MetadataResponse.MetadataResponseTopic(
            error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if wrong else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            name=name,
            is_internal=name in names.INTERNAL,
            topic_authorized_operations=operations,
        )
    if missing and request.allow_auto_topic_creation:
        server.topics.auto_create(missing)


def _described(topic: Topic, server: Server, operations: int) -> MetadataResponse.MetadataResponseTopic:
    offline, node = server.topics.offline.get(topic.name, ()), [server.node_id]
    return MetadataResponse.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponse.MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if index in offline else ErrorCode.NONE,
                partition_index=index,
                leader_id=NO_LEADER if index in offline else server.node_id,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=node,
                isr_nodes=[] if index in offline else node,
                offline_replicas=node if index in offline else [],
            )
            for index in range(topic.partitions)
        ],
        topic_authorized_operations=operations,
    )


API = Api(
    key=3,
    name="Metadata",
    versions=(0, 13),
    access=(DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER),
    handle=handle,
    refuse=refuse,
)
