"""Fetch (key 1): reads records (topics/fetch.py). v13 names topics by id (KIP-516).

A request that waits for data is cancelled when its connection closes.
"""

from copy import copy
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from coordinator.api import Api, Exchange, Forwarded, Permits, Pieces, QuotaType, Server
from coordinator.api.declaration import ErrorPlaces, Fields, IsHit, Patched, Recorded, Seen
from coordinator.api.error_families import LEADER_ERRORS
from coordinator.api.guards import PIECE_NAMES
from coordinator.api.leader_hints import add_leader_hints
from coordinator.api.payloads import batches_in, error_name
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import FetchRequest, FetchResponse
from coordinator.security.access import CLUSTER_ACTION, READ_TOPIC
from coordinator.topics.fetch import IDS_SINCE, Fetch, IsDenied, refusal
from coordinator.topics.fetch_sessions import FINAL, FULL

_HINTS_SINCE = 16


def handle(server: Server, exchange: Exchange[FetchRequest]) -> None:
    _fetch(server, exchange, None)


def guard(server: Server, exchange: Exchange[FetchRequest], permits: Permits) -> None:
    """A follower needs the right of a broker, which is about all topics; a consumer needs one for each topic."""
    request = exchange.request
    is_denied = cache(lambda name: name is not None and not permits.allows(READ_TOPIC, name))
    if request.replica_id >= 0 or request.replica_state.replica_id >= 0:
        denied = not permits.allows(CLUSTER_ACTION)
        _fetch(server, exchange, lambda _name: denied)
    elif len(request.topics) <= PIECE_NAMES:
        _fetch(server, exchange, is_denied)
    else:
        exchange.run_in_slices(_ask_and_fetch(server, exchange, is_denied))


def _ask_and_fetch(server: Server, exchange: Exchange[FetchRequest], is_denied: IsDenied) -> Pieces:
    """`is_denied` remembers what it has said."""
    by_id = exchange.api_version >= IDS_SINCE
    for number, topic in enumerate(exchange.request.topics, 1):
        is_denied(server.topics.topic_name(topic.topic_id) if by_id else topic.topic)
        if not number % PIECE_NAMES:
            yield
    _fetch(server, exchange, is_denied)


def _fetch(server: Server, exchange: Exchange[FetchRequest], is_denied: IsDenied | None) -> None:
    def reply_with_hints(response: FetchResponse) -> None:
        add_leader_hints(server, exchange, response, lambda topic: topic.partitions, "partition_index")
        exchange.reply_in_parts(response)

    fetch = Fetch(
        server.topics,
        exchange.request,
        exchange.api_version,
        reply_with_hints
        if server.topics.may_move and exchange.api_version >= _HINTS_SINCE
        else exchange.reply_in_parts,
        exchange.run_in_slices,
        is_denied,
        exchange.admits,
    )
    if exchange.payload is None:
        exchange.on_close = fetch.cancel


def refuse(request: FetchRequest, error: KafkaError, api_version: int) -> FetchResponse:
    response = FetchResponse(error_code=error.code, session_id=request.session_id)
    if api_version < IDS_SINCE:
        response.responses = [
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, partitions=[refusal(each.partition, error.code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    return response


def _explicit(request: FetchRequest, version: int, server: Server) -> FetchRequest:
    """The request with the partitions of its session that it does not name again."""
    by_id = version >= IDS_SINCE
    found: dict[tuple[str | bytes, int], tuple[str, bytes, FetchRequest.FetchPartition]] = {}
    sessions = server.topics.fetch_sessions
    session = sessions.find(request.session_id) if request.session_epoch not in {FULL, FINAL} else None
    if session is not None and session.epoch == request.session_epoch:
        for key, each in session.partitions.items():
            found[key] = ("" if by_id else each.topic or "", each.topic_id, each.requested)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                found.pop((forgotten.topic_id if by_id else forgotten.topic, index), None)
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.topic_id if by_id else topic.topic, partition.partition)
            found[key] = (topic.topic, topic.topic_id, partition)
    explicit = copy(request)
    explicit.topics = [
        FetchRequest.FetchTopic(name, topic_id, [partition for _, _, partition in group])
        for (name, topic_id), group in groupby(found.values(), itemgetter(0, 1))
    ]
    return explicit


def _patch(seen: Seen, is_hit: IsHit, code: ErrorCode) -> Patched | None:
    """Replaces what was found in these partitions by the error, or adds it where the session had nothing new."""
    hit = [
        (topic, each.partition)
        for topic in seen.explicit.topics
        for each in topic.partitions
        if is_hit(None, seen.topic(topic), each.partition)
    ]
    if not hit:
        return None
    request = copy(seen.request)
    request.max_wait_ms = 0  # an error is answered at once

    def patch(response: Any) -> None:
        topics = {(topic.topic, topic.topic_id): topic for topic in response.responses}
        for named, index in hit:
            key = (named.topic, named.topic_id)
            topic = topics.get(key)
            if topic is None:
                topic = topics[key] = FetchResponse.FetchableTopicResponse(*key)
                response.responses.append(topic)
            topic.partitions = [data for data in topic.partitions if data.partition_index != index]
            topic.partitions.append(refusal(index, code))

    return Patched(request, patch)


def _recorded_request(seen: Seen, request: Any) -> Fields:
    return {
        "max_wait_ms": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "partitions": [
            {"topic": seen.topic(topic), "partition": each.partition, "fetch_offset": each.fetch_offset}
            for topic in seen.explicit.topics
            for each in topic.partitions
        ],
    }


def _recorded_response(seen: Seen, response: Any) -> Fields:
    offsets = {
        (seen.topic(topic), each.partition): each.fetch_offset
        for topic in seen.explicit.topics
        for each in topic.partitions
    }
    partitions = []
    for topic in response.responses:
        name = seen.topic(topic)
        for data in topic.partitions:
            fetch_offset = offsets.get((name, data.partition_index))
            first, last, count = _delivered(data.records or b"", fetch_offset or 0)
            partitions.append(
                {
                    "topic": name,
                    "partition": data.partition_index,
                    "fetch_offset": fetch_offset,
                    "first_offset": first,
                    "last_offset": last,
                    "count": count,
                    "high_watermark": data.high_watermark,
                    "last_stable_offset": data.last_stable_offset,
                    "error": error_name(data.error_code),
                }
            )
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "error": error_name(response.error_code),
        "session_id": response.session_id,
        "partitions": partitions,
    }


def _delivered(records: bytes, fetch_offset: int) -> tuple[int | None, int | None, int]:
    """The first and last offset and the number of the records that a client gets: none before its offset, no markers."""
    first = last = None
    count = 0
    for header in batches_in(records):
        if header.is_control or header.last_offset < fetch_offset:
            continue
        begins = max(header.base_offset, fetch_offset)
        first = begins if first is None else first
        last = header.last_offset
        count += min(header.record_count, header.next_offset - begins)
    return first, last, count


_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
_ERRORS = LEADER_ERRORS | _SESSION_ERRORS | {
    ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.OFFSET_NOT_AVAILABLE,
}  # fmt: skip

API = Api(
    key=1,
    name="Fetch",
    versions=(4, 18),
    access=(CLUSTER_ACTION, READ_TOPIC),
    handle=handle,
    refuse=refuse,
    guard=guard,
    writes=False,
    errors=_ERRORS,
    elements=("topics.partitions",),
    quotas=frozenset({QuotaType.REQUEST, QuotaType.FETCH}),
    overlay=Forwarded(last=15),
    places=ErrorPlaces(of_whole=_SESSION_ERRORS, patch=_patch),
    explicit=_explicit,
    recorded=Recorded(_recorded_request, _recorded_response),
)
