"""Metadata (key 3): the cluster's nodes, and topics with their partitions.

Null selects all topics, an empty list none; v0 has no null, and there the empty list selects all. v12 may name a topic by its
id (KIP-516): as soon as one entry has an id, entries without one are ignored, as in Kafka.

A missing topic is created if both the client and `auto.create.topics.enable` allow it. The response does not wait for that:
it carries UNKNOWN_TOPIC_OR_PARTITION, as Kafka's does, and the client asks again until the topic exists.

A topic is encoded once per change (topics/encoded_topics.py), and a response with many is built in slices.

A client sees the topics that it may describe. Of all topics the others are left out; named ones are refused behind the rest,
without a word on whether they exist, and a missing topic that the client may not create is refused instead of created
(`KafkaApis.handleTopicMetadataRequest`).

A partition whose log is damaged has no leader and LEADER_NOT_AVAILABLE, as in Kafka one whose log directory is offline.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

from coordinator.api import Api, Exchange, Forwarded, Permits, Pieces, QuotaType, Server
from coordinator.api.declaration import ErrorPlaces, IsHit, Patched, Seen
from coordinator.api.error_families import TOPIC_ERRORS
from coordinator.api.guards import cluster_operations
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import MetadataRequest, MetadataResponse
from coordinator.protocol.spliced_array import PIECE_ELEMENTS
from coordinator.security import authorized_operations
from coordinator.security.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER, DESCRIBE_TOPIC, ResourceType
from coordinator.topics import names
from coordinator.topics.encoded_topics import Form, ResponseTopic, around_topics, encode_topic, encode_topics
from coordinator.topics.leader_epochs import LEADER_EPOCH
from coordinator.topics.registry import NO_ID, Topic
from coordinator.topics.topics import NO_LEADER

_OPERATIONS_SINCE = 8
_IDS_SINCE = 12
_CREATED_AT_ONCE = 10
"""Topics whose creation takes about a millisecond."""


_ANYWHERE = ("", 0)


class PartitionState(NamedTuple):
    """Who has a partition, in the words of Metadata. The leader is NO_LEADER if its log is damaged or no node has it now."""

    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def partition_states(server: Server, topic: Topic) -> Callable[[int], PartitionState]:
    """Index of a partition -> its state."""
    placements = server.topics.registry.placements
    damaged = server.topics.offline.get(topic.name, frozenset())
    if placements is not None:
        living = {node.id for node in server.cluster.nodes(_ANYWHERE)}

        def placed(index: int) -> PartitionState:
            replicas, isr, leader, epoch = placements[topic.topic_id, index]
            if index in damaged:
                return PartitionState(NO_LEADER, epoch, [*replicas], [], [*replicas])
            return PartitionState(leader, epoch, [*replicas], [*isr], [each for each in replicas if each not in living])

        return placed
    leader_of = _leaders(server, topic.name, damaged)

    def state(index: int) -> PartitionState:
        leader = leader_of(index)
        if leader != NO_LEADER:
            return PartitionState(leader, LEADER_EPOCH, [leader], [leader], [])
        # The server whose log is damaged could lead it again.
        replicas = [server.node_id] if server.topics.has_data else []
        return PartitionState(leader, LEADER_EPOCH, replicas, [], replicas)

    return state


def _leaders(server: Server, topic: str, damaged: frozenset[int]) -> Callable[[int], int]:
    if topic in names.INTERNAL and server.cluster.moves:
        return lambda index: _owner(server, topic, index)
    elsewhere = server.cluster.data_leader()
    if elsewhere is not None:
        return lambda _index: elsewhere
    return lambda index: NO_LEADER if index in damaged else server.node_id


def _owner(server: Server, topic: str, index: int) -> int:
    node = server.cluster.leader(topic, index, _ANYWHERE)
    return NO_LEADER if node is None else node.id


def handle(server: Server, exchange: Exchange[MetadataRequest]) -> None:
    request = exchange.request
    version = exchange.api_version
    if request.topics and version < _IDS_SINCE and any(t.name is None or t.topic_id != NO_ID for t in request.topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.topics and any(t.name is None and t.topic_id == NO_ID for t in request.topics):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka, which looks for a name
    exchange.run_in_slices(_respond(server, exchange))


def _respond(server: Server, exchange: Exchange[MetadataRequest]) -> Pieces:
    request, version, permits = exchange.request, exchange.api_version, exchange.permits
    is_requested = request.include_topic_authorized_operations
    are_0 = version >= _OPERATIONS_SINCE and exchange.behaviours.unrequested_operations_are_0
    not_requested = 0 if are_0 else authorized_operations.NOT_REQUESTED
    operations = authorized_operations.TOPIC if is_requested else not_requested
    form = Form(exchange.route.encode, version, operations)
    operations_vary = is_requested and not permits.everything
    encoded: list[bytes] = []
    count = 0
    missing: list[ResponseTopic] = []
    creatable: list[str] = []
    for number, found in enumerate(_topics(server, exchange, creatable), 1):
        if isinstance(found, Topic):
            _encode_missing(form, missing, encoded)
            if operations_vary:
                form = form._replace(operations=permits.operations(ResourceType.TOPIC, found.name))
            encoded.append((yield from _encoded(server, form, found)))
            count += 1
        elif found is not None:
            if found.topic_authorized_operations == authorized_operations.NOT_REQUESTED:
                found.topic_authorized_operations = not_requested
            missing.append(found)
            if len(missing) == PIECE_ELEMENTS:
                _encode_missing(form, missing, encoded)
            count += 1
        if not number % PIECE_ELEMENTS:
            yield
    _encode_missing(form, missing, encoded)
    response = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node.id, node.host, node.port, node.rack)
            for node in server.cluster.named_nodes(exchange.advertised)
        ],
        cluster_id=server.cluster_id,
        controller_id=server.controller_id,
        cluster_authorized_operations=not_requested,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(permits)
    before, behind = around_topics(form, response, count)
    if request.allow_auto_topic_creation:
        yield from _create_missing(server, creatable, exchange.allows_mutation)
    exchange.reply_encoded(response, [before, b"".join(encoded), behind])


def refuse(request: MetadataRequest, error: KafkaError, _api_version: int) -> MetadataResponse:
    return MetadataResponse(
        error_code=error.code,
        topics=[
            MetadataResponse.MetadataResponseTopic(error_code=error.code, name=t.name or "", topic_id=t.topic_id)
            for t in request.topics or ()
        ],
    )


def _operations(request: MetadataRequest, permits: Permits, name: str) -> int:
    if not request.include_topic_authorized_operations:
        return authorized_operations.NOT_REQUESTED
    return permits.operations(ResourceType.TOPIC, name)


def _topics(
    server: Server, exchange: Exchange[MetadataRequest], creatable: list[str]
) -> Iterator[Topic | ResponseTopic | None]:
    """The topics in the order of the response; in place of those that do not exist, their errors.

    None stands for a topic that is not part of the response, or not yet. `creatable` gets the names that may be created.
    """
    named = exchange.request.topics
    if named is None or (exchange.api_version == 0 and not named):
        return _all_topics(server, exchange.permits)
    ids = dict.fromkeys(t.topic_id for t in named if t.topic_id != NO_ID)
    if ids:
        return _topics_by_id(server, ids, exchange.permits)
    wanted = dict.fromkeys(t.name for t in named if t.name is not None)
    return _topics_by_name(server, exchange, wanted, creatable)


def _all_topics(server: Server, permits: Permits) -> Iterator[Topic | None]:
    listed = [topic for topic in server.topics.registry.topics.values() if topic.name not in names.UNLISTED]
    if permits.everything:
        yield from listed
    else:
        for topic in listed:
            yield topic if permits.allows(DESCRIBE_TOPIC, topic.name, quiet=True) else None


def _topics_by_id(server: Server, ids: Iterable[bytes], permits: Permits) -> Iterator[Topic | ResponseTopic | None]:
    """Ids are not secret in Kafka: a topic's id is refused, and an unknown one is unknown."""
    by_id = server.topics.registry.by_id
    known = [by_id[topic_id] for topic_id in ids if topic_id in by_id]
    for topic_id in [topic_id for topic_id in ids if topic_id not in by_id]:
        yield ResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    denied: list[bytes] = []
    for topic in known:
        if permits.allows(DESCRIBE_TOPIC, topic.name):
            yield topic
        else:
            denied.append(topic.topic_id)
            yield None
    for topic_id in denied:
        yield ResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)


def _topics_by_name(
    server: Server, exchange: Exchange[MetadataRequest], wanted: Iterable[str], creatable: list[str]
) -> Iterator[Topic | ResponseTopic | None]:
    """A missing topic is refused if the client asks for its creation and may not create it."""
    request, permits = exchange.request, exchange.permits
    creates = request.allow_auto_topic_creation and server.topics.config.auto_create_topics_enable
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    not_created: list[str] = []
    not_described: list[str] = []
    for name in wanted:
        found = server.topics.registry.topics.get(name)
        if not permits.allows(DESCRIBE_TOPIC, name):
            not_described.append(name)
            yield None
        elif found is not None:
            yield found
        elif creates and not _may_create(permits, name):
            not_created.append(name)
            yield None
        else:
            creatable.append(name)
            is_invalid = names.why_invalid(name) is not None
            hides_invalid = exchange.behaviours.invalid_names_are_unknown and not creates
            error = invalid if is_invalid and not hides_invalid else unknown
            operations = _operations(request, permits, name)
            yield ResponseTopic(
                error_code=error,
                name=name,
                is_internal=name in names.INTERNAL,
                topic_authorized_operations=operations,
            )
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    yield from [ResponseTopic(error_code=denied, name=each, is_internal=each in names.INTERNAL) for each in not_created]
    yield from [ResponseTopic(error_code=denied, name=each) for each in not_described]


def _may_create(permits: Permits, name: str) -> bool:
    return permits.allows(CREATE_CLUSTER, quiet=True) or permits.allows(CREATE_TOPIC, name)


def _create_missing(server: Server, wanted: Sequence[str], allows_mutation: Callable[[int], bool]) -> Pieces:
    """Creates topics that the request names and that do not exist, as far as the client's quota allows."""
    partitions = server.topics.config.num_partitions
    missing = [
        name
        for name in wanted
        if name not in server.topics.registry.topics and names.why_invalid(name) is None and allows_mutation(partitions)
    ]
    for first in range(0, len(missing), _CREATED_AT_ONCE):
        server.topics.auto_create(missing[first : first + _CREATED_AT_ONCE])
        yield


def _encode_missing(form: Form, missing: list[ResponseTopic], encoded: list[bytes]) -> None:
    if missing:
        encoded.append(encode_topics(form, missing))
        missing.clear()


def _encoded(server: Server, form: Form, topic: Topic) -> Generator[None, None, bytes]:
    """The bytes of a topic: those that are kept, or new ones."""
    offline = server.topics.offline.get(topic.name, frozenset())
    moves = (topic.is_internal and server.cluster.moves) or server.topics.registry.placements is not None
    kept = None if moves else server.encoded_topics.get(form, topic, offline)
    if kept is not None:
        return kept
    state_of = partition_states(server, topic)

    def partition(index: int) -> MetadataResponse.MetadataResponsePartition:
        state = state_of(index)
        return MetadataResponse.MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE if state.leader == NO_LEADER else ErrorCode.NONE,
            partition_index=index,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=state.replicas,
            isr_nodes=state.isr,
            offline_replicas=state.offline,
        )

    described = ResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=form.operations,
    )
    encoded = yield from encode_topic(form, described, topic.partitions, partition)
    if not moves:
        server.encoded_topics.keep(form, topic, offline, encoded)
    return encoded


def _shape(request: MetadataRequest, error: KafkaError, version: int) -> MetadataResponse:
    if error.code in _WHOLE_ERRORS:
        return MetadataResponse(error_code=error.code)
    return MetadataResponse(topics=refuse(request, error, version).topics)


def _explicit(request: MetadataRequest, version: int, server: Server) -> MetadataRequest:
    """A request for all topics (null, or none in version 0) names each."""
    if request.topics or (request.topics is not None and version > 0):
        return request
    explicit = copy(request)
    explicit.topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in server.topics.topic_names()]
    return explicit


def _patch(seen: Seen, is_hit: IsHit, code: ErrorCode) -> Patched:
    """Takes the leaders of these partitions away."""

    def patch(response: Any) -> None:
        for topic in response.topics:
            for each in topic.partitions:
                if is_hit(None, seen.topic(topic), each.partition_index):
                    each.error_code, each.leader_id = code, NO_LEADER

    return Patched(seen.request, patch)


_WHOLE_ERRORS = frozenset({ErrorCode.REBOOTSTRAP_REQUIRED})


_ERRORS = TOPIC_ERRORS | {
    ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.REBOOTSTRAP_REQUIRED,
}  # fmt: skip

API = Api(
    key=3,
    name="Metadata",
    versions=(0, 13),
    access=(DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CLUSTER),
    handle=handle,
    refuse=refuse,
    errors=_ERRORS,
    elements=("topics",),
    quotas=frozenset({QuotaType.REQUEST, QuotaType.CONTROLLER_MUTATION}),
    overlay=Forwarded(last=13),
    places=ErrorPlaces(of_whole=_WHOLE_ERRORS, shape=_shape, patch=_patch),
    explicit=_explicit,
)
