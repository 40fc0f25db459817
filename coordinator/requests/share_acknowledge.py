"""ShareAcknowledge (key 79): a member says what became of its records (KIP-932; topics/share/). v2 renews locks (KIP-1222).

It is answered when everything is durable. A request that ends the member's session gives back the rest.
"""

from copy import copy
from functools import cache
from typing import Any

from coordinator.api import Api, Exchange, Overlay, Permits, Server
from coordinator.api.declaration import ErrorPlaces, IsHit, Patched, Seen
from coordinator.api.error_families import COORDINATOR_ERRORS, LEADER_ERRORS
from coordinator.api.leader_hints import add_leader_hints
from coordinator.api.share_acknowledgements import (
    Acknowledge,
    IsDenied,
    Results,
    check_member,
    is_enabled,
    session_key,
)
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from coordinator.security.access import READ_GROUP, READ_TOPIC
from coordinator.topics.share.sessions import FINAL

_Topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse


def handle(server: Server, exchange: Exchange[ShareAcknowledgeRequest]) -> None:
    _acknowledge(server, exchange, lambda _name: False)


def guard(server: Server, exchange: Exchange[ShareAcknowledgeRequest], permits: Permits) -> None:
    request = exchange.request
    if is_enabled(server) and request.group_id is not None:
        permits.require(READ_GROUP, request.group_id)
    _acknowledge(server, exchange, cache(lambda name: name is None or not permits.allows(READ_TOPIC, name)))


def _acknowledge(server: Server, exchange: Exchange[ShareAcknowledgeRequest], is_denied: IsDenied) -> None:
    request, manager = exchange.request, server.share_partitions
    check_member(server, request)
    key = session_key(request)
    manager.acknowledge_session(key, request.share_session_epoch)

    def reply(results: Results) -> None:
        topics: dict[bytes, _Topic] = {}
        for partition, error in results.items():
            topic = topics.setdefault(partition.topic_id, _Topic(partition.topic_id))
            data = ShareAcknowledgeResponse.PartitionData(partition_index=partition.partition)
            if error is not None:
                data.error_code, data.error_message = error.code, error.message or None
            topic.partitions.append(data)
        response = ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=manager.settings_of(key.group_id).limits.lock_ms,
            responses=list(topics.values()),
        )
        if request.share_session_epoch == FINAL:
            manager.end_session(key)
        add_leader_hints(
            server, exchange, response, lambda topic: topic.partitions, "partition_index", of_one_broker=True
        )
        exchange.reply(response)

    Acknowledge(server, exchange, request.topics, is_denied).begin(reply)


def refuse(request: ShareAcknowledgeRequest, error: KafkaError, api_version: int) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error.code)


def _patch(seen: Seen, is_hit: IsHit, code: ErrorCode) -> Patched | None:
    """Puts the error of a rule into the partitions, whose records stay as they were. The session goes on."""
    request = copy(seen.request)
    request.topics = []
    hit: dict[bytes, list[int]] = {}
    for topic in seen.request.topics:
        part = copy(topic)
        part.partitions = []
        for each in topic.partitions:
            if is_hit(request.group_id, seen.topic(topic), each.partition_index):
                hit.setdefault(topic.topic_id, []).append(each.partition_index)
            else:
                part.partitions.append(each)
        if part.partitions:
            request.topics.append(part)
    if not hit:
        return None

    def patch(response: Any) -> None:
        if response.error_code:
            return  # refused as a whole: nothing was done in the other partitions either
        topics = {topic.topic_id: topic for topic in response.responses}
        for topic_id, indexes in hit.items():
            if topic_id not in topics:
                topics[topic_id] = _Topic(topic_id)
                response.responses.append(topics[topic_id])
            topics[topic_id].partitions += [ShareAcknowledgeResponse.PartitionData(each, code) for each in indexes]

    return Patched(request, patch)


_WHOLE_ERRORS = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)

API = Api(
    key=79,
    name="ShareAcknowledge",
    versions=(1, 2),
    access=(READ_GROUP, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    errors=LEADER_ERRORS | COORDINATOR_ERRORS | _WHOLE_ERRORS | {ErrorCode.INVALID_RECORD_STATE},
    elements=("topics.partitions",),
    overlay=Overlay.HIDDEN,
    places=ErrorPlaces(of_whole=_WHOLE_ERRORS, patch=_patch),
)
