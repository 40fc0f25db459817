"""Requests and responses as recordings show them: fields by name, bytes by what they hold.

The APIs that move data are shown by partition (Fetch, Produce, OffsetCommit, OffsetFetch). Those of groups have their
subscriptions and assignments decoded. All others have the fields of the message in its version. A topic always has its name,
also where the version names it by its id.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from coordinator.groups.classic.round import Round
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.log.batch import HEADER_BYTES, BatchHeader, CorruptBatch, read_header
from coordinator.protocol.codec import Codec
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.schema import Definition, Field, Structure
from coordinator.protocol.subscription import parse_assignment, parse_subscription
from coordinator.protocol.wire import DecodeError
from coordinator.rules.matching import Seen

_NO_ID = bytes(16)
_UUID_PADDING = 2

Fields = dict[str, Any]


def summarize_request(seen: Seen) -> Fields:
    """The request of an entry."""
    route = seen.exchange.route
    if seen.request is None:
        return {}
    special = _REQUESTS.get(route.name)
    return special(seen, seen.request) if special is not None else _message(seen, f"{route.name}Request", seen.request)


def summarize_response(seen: Seen, message: Any) -> Fields:
    """The response of an entry."""
    name = seen.exchange.route.name
    special = _RESPONSES.get(name)
    return special(seen, message) if special is not None else _message(seen, f"{name}Response", message)


# --- any message ------------------------------------------------------------------------------------------------------


def _message(seen: Seen, name: str, message: Any) -> Fields:
    route = seen.exchange.route
    definition = Codec.of(route.dialect).definition(name)
    return _structure(seen, definition, definition.root, message, route.version)


def _structure(seen: Seen, definition: Definition, structure: Structure, message: Any, version: int) -> Fields:
    """The fields that the version has, by their names."""
    fields: Fields = {}
    for field in structure.fields:
        if version not in field.versions and version not in field.tagged:
            continue
        value = getattr(message, field.attribute)
        name = field.attribute
        if name.endswith("error_code"):
            fields[name.removesuffix("_code")] = _error(value)
        elif field.type.name == "uuid":
            fields[name] = _uuids(value)
            if name == "topic_id" and "topic" not in fields:
                fields["topic"] = seen.server.topics.topic_name(value)
        else:
            fields[name] = _value(seen, definition, field, value, version)
    return fields


def _value(seen: Seen, definition: Definition, field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.type.is_struct:
        structure = definition.structures[field.type.name]
        if field.type.is_array:
            return [_structure(seen, definition, structure, each, version) for each in value]
        return _structure(seen, definition, structure, value, version)
    if field.type.name in {"bytes", "records"}:
        return {"bytes": len(value)}
    return value


def _uuids(value: Any) -> Any:
    return [_uuid(each) for each in value] if isinstance(value, list) else _uuid(value)


def _uuid(value: bytes) -> str | None:
    """As Kafka writes ids; None for none."""
    return None if value == _NO_ID else urlsafe_b64encode(value).decode()[:-_UUID_PADDING]


def _error(code: int) -> str | None:
    """The name of an error; None if there is none."""
    if not code:
        return None
    return ErrorCode(code).name if code in set(ErrorCode) else str(code)


def _topic(seen: Seen, holder: Any) -> str | None:
    """The name of a topic, whichever way the version names it."""
    name: str | None = getattr(holder, "name", None) or getattr(holder, "topic", None)
    if name:
        return name
    topic_id = getattr(holder, "topic_id", _NO_ID)
    return None if topic_id == _NO_ID else seen.server.topics.topic_name(topic_id)


# --- the data plane ---------------------------------------------------------------------------------------------------


def _produce_request(seen: Seen, request: Any) -> Fields:
    return {
        "transactional_id": request.transactional_id,
        "acks": request.acks,
        "timeout_ms": request.timeout_ms,
        "partitions": [
            {
                "topic": _topic(seen, topic),
                "partition": data.index,
                "count": sum(header.record_count for header in _batches(data.records or b"")),
                "bytes": len(data.records or b""),
            }
            for topic in request.topic_data
            for data in topic.partition_data
        ],
    }


def _produce_response(seen: Seen, response: Any) -> Fields:
    counts = {
        (_topic(seen, topic), data.index): sum(header.record_count for header in _batches(data.records or b""))
        for topic in getattr(seen.request, "topic_data", ())
        for data in topic.partition_data
    }
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "partitions": [
            {
                "topic": _topic(seen, topic),
                "partition": data.index,
                "base_offset": data.base_offset,
                "count": 0 if data.error_code else counts.get((_topic(seen, topic), data.index), 0),
                "error": _error(data.error_code),
            }
            for topic in response.responses
            for data in topic.partition_responses
        ],
    }


def _fetch_request(seen: Seen, request: Any) -> Fields:
    return {
        "max_wait_ms": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "partitions": [
            {"topic": each.topic, "partition": each.partition, "fetch_offset": each.offset} for each in seen.fetched
        ],
    }


def _fetch_response(seen: Seen, response: Any) -> Fields:
    offsets = {(each.topic, each.partition): each.offset for each in seen.fetched}
    partitions = []
    for topic in response.responses:
        name = _topic(seen, topic)
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
                    "error": _error(data.error_code),
                }
            )
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "error": _error(response.error_code),
        "session_id": response.session_id,
        "partitions": partitions,
    }


def _delivered(records: bytes, fetch_offset: int) -> tuple[int | None, int | None, int]:
    """The first and last offset and the number of the records that a client gets: none before its offset, no markers."""
    first = last = None
    count = 0
    for header in _batches(records):
        if header.is_control or header.last_offset < fetch_offset:
            continue
        begins = max(header.base_offset, fetch_offset)
        first = begins if first is None else first
        last = header.last_offset
        count += min(header.record_count, header.next_offset - begins)
    return first, last, count


def _batches(records: bytes) -> Iterator[BatchHeader]:
    """The headers of the batches, as far as there are whole ones."""
    position = 0
    while len(records) - position >= HEADER_BYTES:
        try:
            header = read_header(records, position)
        except CorruptBatch:
            return
        yield header
        position += header.size_bytes


def _offset_commit_request(seen: Seen, request: Any) -> Fields:
    return {
        **_of_group(request),
        "partitions": [
            {
                "topic": _topic(seen, topic),
                "partition": each.partition_index,
                "offset": each.committed_offset,
                "leader_epoch": each.committed_leader_epoch,
                "metadata": each.committed_metadata,
            }
            for topic in request.topics
            for each in topic.partitions
        ],
    }


def _offset_commit_response(seen: Seen, response: Any) -> Fields:
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "partitions": [
            {"topic": _topic(seen, topic), "partition": each.partition_index, "error": _error(each.error_code)}
            for topic in response.topics
            for each in topic.partitions
        ],
    }


def _of_group(request: Any) -> Fields:
    """Who commits: the fields that the request has."""
    named = {
        "transactional_id": "transactional_id",
        "group_id": "group_id",
        "producer_id": "producer_id",
        "producer_epoch": "producer_epoch",
        "member_id": "member_id",
        "group_instance_id": "group_instance_id",
        "generation_id_or_member_epoch": "epoch",
    }
    return {to: getattr(request, name) for name, to in named.items() if name in type(request).__slots__}


def _offset_fetch_request(seen: Seen, request: Any) -> Fields:
    groups = request.groups or [request]
    return {
        "require_stable": request.require_stable,
        "groups": [
            {
                "group_id": group.group_id,
                "member_id": getattr(group, "member_id", None),
                "member_epoch": getattr(group, "member_epoch", None),
                "partitions": None
                if group.topics is None
                else [
                    {"topic": _topic(seen, topic), "partition": index}
                    for topic in group.topics
                    for index in topic.partition_indexes
                ],
            }
            for group in groups
        ],
    }


def _offset_fetch_response(seen: Seen, response: Any) -> Fields:
    groups = response.groups or [response]
    return {
        "throttle_time_ms": response.throttle_time_ms,
        "groups": [
            {
                "group_id": getattr(group, "group_id", None) or getattr(seen.request, "group_id", None),
                "error": _error(group.error_code),
                "partitions": [
                    {
                        "topic": _topic(seen, topic),
                        "partition": each.partition_index,
                        "offset": each.committed_offset,
                        "leader_epoch": each.committed_leader_epoch,
                        "metadata": each.metadata,
                        "error": _error(each.error_code),
                    }
                    for topic in group.topics
                    for each in topic.partitions
                ],
            }
            for group in groups
        ],
    }


# --- classic groups ---------------------------------------------------------------------------------------------------


def _join_request(seen: Seen, request: Any) -> Fields:
    fields = _message(seen, "JoinGroupRequest", request)
    fields["protocols"] = [
        {"name": each.name, **_subscription(request.protocol_type, each.metadata)} for each in request.protocols
    ]
    return fields


def _join_response(seen: Seen, response: Any) -> Fields:
    fields = _message(seen, "JoinGroupResponse", response)
    protocol_type = getattr(seen.request, "protocol_type", None)
    for shown, member in zip(fields["members"], response.members, strict=True):
        shown.pop("metadata")
        shown.update(_subscription(protocol_type, member.metadata))
    return fields


def _sync_request(seen: Seen, request: Any) -> Fields:
    fields = _message(seen, "SyncGroupRequest", request)
    protocol_type = _protocol_type(seen)
    fields["assignments"] = [
        {"member_id": each.member_id, **_assignment(protocol_type, each.assignment)} for each in request.assignments
    ]
    return fields


def _sync_response(seen: Seen, response: Any) -> Fields:
    fields = _message(seen, "SyncGroupResponse", response)
    fields.pop("assignment")
    return fields | _assignment(_protocol_type(seen), response.assignment)


def _protocol_type(seen: Seen) -> str | None:
    """That of the request, or of its group: before version 5 a SyncGroup does not say."""
    request: Any = seen.request
    if request.protocol_type:
        return str(request.protocol_type)
    group = seen.server.groups.shard_of(request.group_id).state.by_id.get(request.group_id)
    return group.protocol_type if isinstance(group, Round) else CONSUMER_PROTOCOL_TYPE


def _subscription(protocol_type: str | None, data: bytes) -> Fields:
    if protocol_type == CONSUMER_PROTOCOL_TYPE and data:
        try:
            subscription = parse_subscription(data)
        except DecodeError:
            return {"metadata": {"bytes": len(data)}}
        return {
            "topics": list(subscription.topics),
            "owned": _partitions(subscription.owned),
            "generation_id": subscription.generation_id,
            "rack_id": subscription.rack_id,
        }
    return {"metadata": {"bytes": len(data)}}


def _assignment(protocol_type: str | None, data: bytes) -> Fields:
    if protocol_type == CONSUMER_PROTOCOL_TYPE and data:
        try:
            return {"assignment": _partitions(parse_assignment(data).partitions)}
        except DecodeError:
            pass
    return {"assignment": [] if not data else {"bytes": len(data)}}


def _partitions(partitions: Mapping[str, tuple[int, ...]]) -> list[Fields]:
    return [{"topic": topic, "partition": index} for topic, indexes in partitions.items() for index in indexes]


# --- consumer groups --------------------------------------------------------------------------------------------------


def _consumer_request(seen: Seen, request: Any) -> Fields:
    fields = _message(seen, "ConsumerGroupHeartbeatRequest", request)
    fields["topic_partitions"] = _by_id(seen, request.topic_partitions)
    return fields


def _consumer_response(seen: Seen, response: Any) -> Fields:
    fields = _message(seen, "ConsumerGroupHeartbeatResponse", response)
    assignment = response.assignment
    fields["assignment"] = None if assignment is None else _by_id(seen, assignment.topic_partitions)
    return fields


def _by_id(seen: Seen, topics: list[Any] | None) -> list[Fields] | None:
    if topics is None:
        return None
    return [{"topic": _topic(seen, topic), "partition": index} for topic in topics for index in topic.partitions]


_REQUESTS = {
    "Produce": _produce_request,
    "Fetch": _fetch_request,
    "OffsetCommit": _offset_commit_request,
    "TxnOffsetCommit": _offset_commit_request,
    "OffsetFetch": _offset_fetch_request,
    "JoinGroup": _join_request,
    "SyncGroup": _sync_request,
    "ConsumerGroupHeartbeat": _consumer_request,
}
_RESPONSES = {
    "Produce": _produce_response,
    "Fetch": _fetch_response,
    "OffsetCommit": _offset_commit_response,
    "TxnOffsetCommit": _offset_commit_response,
    "OffsetFetch": _offset_fetch_response,
    "JoinGroup": _join_response,
    "SyncGroup": _sync_response,
    "ConsumerGroupHeartbeat": _consumer_response,
}
