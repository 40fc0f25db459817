"""ShareGroupHeartbeat (key 76): a member joins a share group, stays in it, learns its partitions, and leaves (KIP-932)."""

from typing import Any

from coordinator.api import Api, Coordinator, Exchange, Overlay, Permits, Server
from coordinator.api.declaration import Fields, Recorded, Seen
from coordinator.api.error_families import EPOCH_ERRORS
from coordinator.api.guards import allowed_names, serves
from coordinator.groups.kinds import Kind
from coordinator.groups.share.heartbeat import share_group_heartbeat
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ShareGroupHeartbeatRequest
from coordinator.security.access import DESCRIBE_TOPIC, READ_GROUP

MEMBER_ID_LENGTH_MAX = 36


def handle(server: Server, exchange: Exchange[ShareGroupHeartbeatRequest]) -> None:
    request = exchange.request
    if not serves(server, Kind.SHARE):
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return
    _check_member_id(request)
    server.groups.submit(request.group_id, share_group_heartbeat, exchange)


def guard(server: Server, exchange: Exchange[ShareGroupHeartbeatRequest], permits: Permits) -> None:
    request = exchange.request
    if serves(server, Kind.SHARE):
        permits.require(READ_GROUP, request.group_id)
        _check_member_id(request)
        topics = set(request.subscribed_topic_names or ())
        if len(allowed_names(permits, DESCRIBE_TOPIC, topics)) < len(topics):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    handle(server, exchange)


def _check_member_id(request: ShareGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST, without a message as in Kafka, for an id that no client makes."""
    if not 0 < len(request.member_id) <= MEMBER_ID_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _recorded_response(seen: Seen, response: Any) -> Fields:
    fields = seen.fields(response)
    assignment = response.assignment
    fields["assignment"] = assignment and [
        {"topic": seen.topic(topic), "partition": index}
        for topic in assignment.topic_partitions
        for index in topic.partitions
    ]
    return fields


API = Api(
    key=76,
    name="ShareGroupHeartbeat",
    versions=(1, 1),
    access=(READ_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    guard=guard,
    is_guarded_whole=True,
    is_cacheable=True,
    errors=EPOCH_ERRORS - {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID},
    mentions=("subscribed_topic_names",),
    coordinator=Coordinator.GROUP,
    overlay=Overlay.HIDDEN,
    recorded=Recorded(lambda seen, request: seen.fields(request), _recorded_response),
)
