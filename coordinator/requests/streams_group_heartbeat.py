"""StreamsGroupHeartbeat (key 88): a member of a Kafka Streams group joins, sends its topology, learns its tasks, and leaves.

The protocol is that of KIP-1071. Beside its group, the request concerns topics. The topics of a topology must have valid names,
and none may be internal to the server. Internal topics of the topology that are missing are created behind the response that
reports them (`MISSING_INTERNAL_TOPICS`); the member sends another heartbeat and finds them. If some could not be created, the
next such response says why. A client that may not create all of them has none created.
"""

from collections.abc import Sequence
from functools import partial

from coordinator.api import HERE, Api, Coordinator, Exchange, Permits, Server
from coordinator.api.error_families import EPOCH_ERRORS
from coordinator.api.guards import allowed_names, serves
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.streams.group import decided_streams_group
from coordinator.groups.streams.heartbeat import streams_group_heartbeat
from coordinator.groups.streams.status import StatusCode
from coordinator.groups.streams.topology import InternalTopic
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    CreateTopicsRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coordinator.runtime.result import RequestContext, Result
from coordinator.security.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC, READ_GROUP
from coordinator.topics import names
from coordinator.topics.auto_creation import AutoTopicCreation, Creatable

FAILURES_LISTED_MAX = 3
FAILURES_KEPT_FOR_HEARTBEATS = 2
_DEFAULT = -1
_Config = CreateTopicsRequest.CreatableTopicConfig


def handle(server: Server, exchange: Exchange[StreamsGroupHeartbeatRequest]) -> None:
    request = exchange.request
    if not serves(server, Kind.STREAMS):
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return
    if request.topology is not None:
        _check_names(request.topology)
    auto_creation = server.auto_topic_creation

    def heartbeat(
        groups: Groups, request: StreamsGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> Result:
        """Runs the group's operation, and has missing internal topics created after its response."""
        result = streams_group_heartbeat(groups, request, context, now_ms)
        response = result.reply
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        for status in response.status or ():
            if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                missing = _missing(groups, request.group_id)
                denied = _not_to_create(exchange.permits, missing)
                if denied:
                    status.status_detail += f"; Unauthorized to CREATE on topics {', '.join(denied)}."
                    continue
                _report_failures(auto_creation, missing, status)
                keep_ms = FAILURES_KEPT_FOR_HEARTBEATS * response.heartbeat_interval_ms
                result.after = [*result.after, partial(auto_creation.create, missing, keep_ms)]
        return result

    server.groups.submit(request.group_id, heartbeat, exchange)


def guard(server: Server, exchange: Exchange[StreamsGroupHeartbeatRequest], permits: Permits) -> None:
    request = exchange.request
    if serves(server, Kind.STREAMS):
        permits.require(READ_GROUP, request.group_id)
        if request.topology is not None:
            _check_names(request.topology)
            topics = _names(request.topology)
            if len(allowed_names(permits, DESCRIBE_TOPIC, topics)) < len(topics):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    handle(server, exchange)


def _names(topology: StreamsGroupHeartbeatRequest.Topology) -> dict[str, None]:
    """The names of the topology's topics, each once."""
    return dict.fromkeys(
        name
        for part in topology.subtopologies
        for name in (
            *part.source_topics,
            *part.repartition_sink_topics,
            *(topic.name for topic in part.repartition_source_topics),
            *(topic.name for topic in part.state_changelog_topics),
        )
    )


def _check_names(topology: StreamsGroupHeartbeatRequest.Topology) -> None:
    """Raises STREAMS_INVALID_TOPOLOGY for a topic name that is internal or invalid."""
    named = _names(topology)
    own = [name for name in named if name in names.INTERNAL]
    if own:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(own)} in a Kafka Streams topology is prohibited.",
        )
    illegal = [name for name in named if names.why_invalid(name) is not None]
    if illegal:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {','.join(illegal)} are not valid topic names."
        )


def _missing(groups: Groups, group_id: str) -> list[Creatable]:
    """The internal topics that the group needs and that do not exist."""
    configured = decided_streams_group(groups, group_id).soft.configured
    return [] if configured is None else [_creatable(topic) for topic in configured.internal_topics_to_create]


def _not_to_create(permits: Permits, topics: Sequence[Creatable]) -> list[str]:
    """The names of the topics that the client may not create."""
    if permits.allows(CREATE_CLUSTER, quiet=True):
        return []
    return [topic.name for topic in topics if not permits.allows(CREATE_TOPIC, topic.name)]


def _report_failures(
    auto_creation: AutoTopicCreation, missing: list[Creatable], status: StreamsGroupHeartbeatResponse.Status
) -> None:
    failures = auto_creation.failures(topic.name for topic in missing)
    if failures:
        reasons = [f"{name} ({reason})" for name, reason in failures.items()]
        more = len(reasons) - FAILURES_LISTED_MAX
        listed = ", ".join(reasons[:FAILURES_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
        status.status_detail += f"; Creation failed: {listed}."


def _creatable(topic: InternalTopic) -> Creatable:
    return Creatable(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or _DEFAULT,
        configs=[_Config(name, value) for name, value in topic.configs],
    )


_ERRORS = EPOCH_ERRORS | {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH, ErrorCode.STREAMS_TOPOLOGY_FENCED,
}  # fmt: skip

API = Api(
    key=88,
    name="StreamsGroupHeartbeat",
    versions=(0, 1),
    access=(READ_GROUP, DESCRIBE_TOPIC, CREATE_CLUSTER, CREATE_TOPIC),
    handle=handle,
    guard=guard,
    is_cacheable=True,
    errors=_ERRORS,
    mentions=("topology.subtopologies.source_topics",),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
)
