"""ConsumerGroupHeartbeat (key 68): a member joins a consumer group, stays in it, learns its assignment, and leaves (KIP-848).

v1 lets a member subscribe by a regular expression, and requires it to choose its own member id (KIP-1082); in v0 the server
generates an id for a member that sends none.
"""

from typing import Any

from coordinator.api import HERE, Api, Coordinator, Exchange, Permits, Server
from coordinator.api.declaration import Fields, Recorded, Seen
from coordinator.api.error_families import EPOCH_ERRORS
from coordinator.api.guards import allowed_names, serves
from coordinator.groups.consumer.heartbeat import MEMBER_ID_REQUIRED_SINCE, consumer_group_heartbeat
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ConsumerGroupHeartbeatRequest
from coordinator.security.access import DESCRIBE_TOPIC, READ_GROUP


def handle(server: Server, exchange: Exchange[ConsumerGroupHeartbeatRequest]) -> None:
    request = exchange.request
    if not serves(server, Kind.CONSUMER):
        exchange.refuse(ErrorCode.UNSUPPORTED_VERSION)
        return
    if exchange.api_version < MEMBER_ID_REQUIRED_SINCE and not request.member_id:
        exchange.fresh_id = server.entropy.uuid()
    server.groups.submit(request.group_id, consumer_group_heartbeat, exchange)


def guard(server: Server, exchange: Exchange[ConsumerGroupHeartbeatRequest], permits: Permits) -> None:
    request = exchange.request
    if serves(server, Kind.CONSUMER):
        permits.require(READ_GROUP, request.group_id)
        topics = set(request.subscribed_topic_names or ())
        if len(allowed_names(permits, DESCRIBE_TOPIC, topics)) < len(topics):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    handle(server, exchange)


def _recorded_request(seen: Seen, request: Any) -> Fields:
    fields = seen.fields(request)
    fields["topic_partitions"] = _by_id(seen, request.topic_partitions)
    return fields


def _recorded_response(seen: Seen, response: Any) -> Fields:
    fields = seen.fields(response)
    assignment = response.assignment
    fields["assignment"] = None if assignment is None else _by_id(seen, assignment.topic_partitions)
    return fields


def _by_id(seen: Seen, topics: list[Any] | None) -> list[Fields] | None:
    if topics is None:
        return None
    return [{"topic": seen.topic(topic), "partition": index} for topic in topics for index in topic.partitions]


API = Api(
    key=68,
    name="ConsumerGroupHeartbeat",
    versions=(0, 1),
    access=(READ_GROUP, DESCRIBE_TOPIC),
    handle=handle,
    guard=guard,
    is_guarded_whole=True,
    is_cacheable=True,
    errors=EPOCH_ERRORS | {ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.INVALID_REGULAR_EXPRESSION},
    mentions=("subscribed_topic_names", "topic_partitions"),
    coordinator=Coordinator.GROUP,
    overlay=HERE,
    recorded=Recorded(_recorded_request, _recorded_response),
)
