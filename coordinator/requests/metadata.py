"""Metadata (key 3): the cluster's nodes, and topics with their partitions.

Null selects all topics, an empty list none; v0 has no null, and there the empty list selects all. v12 may name a topic by its
id (KIP-516): as soon as one entry has an id, entries without one are ignored, as in Kafka.

A missing topic is created if both the client and `auto.create.topics.enable` allow it. The response does not wait for that:
it carries UNKNOWN_TOPIC_OR_PARTITION, as Kafka's does, and the client asks again until the topic exists.

A topic is encoded once per change (api/encoded_topics.py), and a response with many is built in slices.

A partition whose log is damaged has no leader and LEADER_NOT_AVAILABLE, as in Kafka one whose log directory is offline.
"""

from collections.abc import Generator, Iterator

from coordinator.api import authorized_operations
from coordinator.api.declaration import Api
from coordinator.api.encoded_topics import (
    Form,
    ResponseTopic,
    around_topics,
    encode_topic,
    encode_topics,
)
from coordinator.api.exchange import Exchange
from coordinator.api.server import Server
from coordinator.api.sliced_work import Pieces
from coordinator.api.spliced_array import PIECE_ELEMENTS
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import MetadataRequest, MetadataResponse
from coordinator.security.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER, DESCRIBE_TOPIC
from coordinator.topics import names
from coordinator.topics.engine import LEADER_EPOCH, NO_LEADER
from coordinator.topics.registry import NO_ID, Topic

_IDS_SINCE = 12
_CREATED_AT_ONCE = 10
"""Topics whose creation takes about a millisecond."""


def handle(server: Server, exchange: Exchange[MetadataRequest]) -> None:
    request = exchange.request
    version = exchange.api_version
    if request.topics and version < _IDS_SINCE and any(t.name is None or t.topic_id != NO_ID for t in request.topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.topics and any(t.name is None and t.topic_id == NO_ID for t in request.topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    exchange.run_in_slices(_respond(server, exchange))


def _respond(server: Server, exchange: Exchange[MetadataRequest]) -> Pieces:
    request, version = exchange.request, exchange.api_version
    operations = (
        authorized_operations.TOPIC
        if request.include_topic_authorized_operations
        else authorized_operations.NOT_REQUESTED
    )
    form = Form(exchange.route.encode, version, operations)
    encoded: list[bytes] = []
    count = 0
    missing: list[ResponseTopic] = []
    for count, found in enumerate(_topics(server, request, version, operations), 1):
        if isinstance(found, Topic):
            _encode_missing(form, missing, encoded)
            encoded.append((yield from _encoded(server, form, found)))
        else:
            missing.append(found)
            if len(missing) == PIECE_ELEMENTS:
                _encode_missing(form, missing, encoded)
        if not count % PIECE_ELEMENTS:
            yield
    _encode_missing(form, missing, encoded)
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port)
            for node in server.cluster.nodes(exchange.advertised)
        ],
        cluster_id=server.cluster_id,
        controller_id=server.node_id,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations.CLUSTER
    before, behind = around_topics(form, response, count)
    if request.allow_auto_topic_creation:
        yield from _create_missing(server, request)
    exchange.reply_encoded(response, [before, b"".join(encoded), behind])


def refuse(request: MetadataRequest, error: KafkaError, _api_version: int) -> MetadataResponse:
    return MetadataResponse(
        error_code=error.code,
        topics=[
            MetadataResponse.MetadataResponseTopic(error_code=error.code, name=t.name or "", topic_id=t.topic_id)
            for t in request.topics or ()
        ],
    )


def _topics(
    server: Server, request: MetadataRequest, version: int, operations: int
) -> Iterator[Topic | MetadataResponse.MetadataResponseTopic]:
    """The topics in the order of the response; in place of those that do not exist, their errors."""
    registry = server.topics.registry
    named = request.topics
    if named is None or (version == 0 and not named):
        yield from [topic for topic in registry.topics.values() if topic.name not in names.UNLISTED]
        return
    ids = dict.fromkeys(t.topic_id for t in named if t.topic_id != NO_ID)
    if ids:
        known = [registry.by_id[topic_id] for topic_id in ids if topic_id in registry.by_id]
        for topic_id in [topic_id for topic_id in ids if topic_id not in registry.by_id]:
            yield ResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        yield from known
        return
    for name in dict.fromkeys(t.name for t in named if t.name is not None):
        found = registry.topics.get(name)
        if found is not None:
            yield found
            continue
        wrong = names.why_invalid(name) is not None
        yield ResponseTopic(
            error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if wrong else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            name=name,
            is_internal=name in names.INTERNAL,
            topic_authorized_operations=operations,
        )


def _create_missing(server: Server, request: MetadataRequest) -> Pieces:
    """Creates the topics that the request names and that do not exist."""
    registry, named = server.topics.registry, request.topics or ()
    if any(t.topic_id != NO_ID for t in named):
        return
    wanted = dict.fromkeys(t.name for t in named if t.name is not None)
    missing = [name for name in wanted if name not in registry.topics and names.why_invalid(name) is None]
    for first in range(0, len(missing), _CREATED_AT_ONCE):
        server.topics.auto_create(missing[first : first + _CREATED_AT_ONCE])
        yield


def _encode_missing(form: Form, missing: list[ResponseTopic], encoded: list[bytes]) -> None:
    if missing:
        encoded.append(encode_topics(form, missing))
        missing.clear()


def _encoded(server: Server, form: Form, topic: Topic) -> Generator[None, None, bytes]:
    """The bytes of a topic: those that are kept, or new ones."""
    offline, node = server.topics.offline.get(topic.name, frozenset()), [server.node_id]
    kept = server.encoded_topics.get(form, topic, offline)
    if kept is not None:
        return kept

    def partition(index: int) -> MetadataResponse.MetadataResponsePartition:
        return MetadataResponse.MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE if index in offline else ErrorCode.NONE,
            partition_index=index,
            leader_id=NO_LEADER if index in offline else server.node_id,
            leader_epoch=LEADER_EPOCH,
            replica_nodes=node,
            isr_nodes=[] if index in offline else node,
            offline_replicas=node if index in offline else [],
        )

    described = ResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=form.operations,
    )
    encoded = yield from encode_topic(form, described, topic.partitions, partition)
    server.encoded_topics.keep(form, topic, offline, encoded)
    return encoded


API = Api(
    key=3,
    name="Metadata",
    versions=(0, 13),
    access=(DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER),
    handle=handle,
    refuse=refuse,
)
