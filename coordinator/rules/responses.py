"""Responses that fault rules make or change: an error in the shape of an API's version, for all of a request or a part of it.

The shape is the API's own (`Api.refuse`), except where the API has several levels of errors and a refusal of its own uses
only one of them.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coordinator.api.exchange import Route
from coordinator.api.payloads import has_field
from coordinator.groups.offsets.fetch import NO_OFFSET
from coordinator.groups.offsets.value import NO_LEADER_EPOCH
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    DescribeLogDirsResponse,
    FetchResponse,
    LeaveGroupResponse,
    Message,
    MetadataResponse,
    OffsetDeleteResponse,
)
from coordinator.rules.elements import FetchedOffset, Path
from coordinator.rules.errors import OF_MEMBERS, OF_PARTITIONS, SESSION_ERRORS
from coordinator.topics.fetch import IDS_SINCE, refusal

_NO_LEADER = -1
_MEMBERS_SINCE = 3
_GROUPS_SINCE = 8
_KEYS = ("group_id", "transactional_id", "key", "name", "topic", "topic_name", "topic_id", "producer_id")
"""What identifies the elements of an array that have arrays themselves."""

IsHit = Callable[[str | None, str | None, int], bool]
"""`is_hit(group, topic, partition)`"""


# --- errors -----------------------------------------------------------------------------------------------------------


def refused(route: Route, request: Any, error: KafkaError) -> Message | None:
    """The response that refuses the request with this error; None if it has no place for one (it names nothing)."""
    shape = _SHAPES.get(route.name)
    message: Any = shape(request, error, route.version) if shape is not None else None
    if message is None:
        message = route.refuse(request, error, route.version)
    if not _has_error(message, route) and has_field(route.name, route.version, "error_code"):
        message.error_code = error.code
    return message if _has_error(message, route) else None


def _has_error(message: Any, route: Route | None = None) -> bool:
    """Whether some error code that is part of the version is set. `route`: None below the top."""
    for attribute in type(message).__slots__:
        value = getattr(message, attribute)
        if attribute.endswith("error_code"):
            if value and (route is None or has_field(route.name, route.version, attribute)):
                return True
        elif isinstance(value, list) and value and isinstance(value[0], Message) and any(map(_has_error, value)):
            return True
    return False


def _leave_group(request: Any, error: KafkaError, version: int) -> Message | None:
    if version < _MEMBERS_SINCE or error.code not in OF_MEMBERS:
        return None
    members = [
        LeaveGroupResponse.MemberResponse(each.member_id, each.group_instance_id, error.code)
        for each in request.members
    ]
    return LeaveGroupResponse(members=members)


def _offset_delete(request: Any, error: KafkaError, _version: int) -> Message | None:
    if error.code not in OF_PARTITIONS["OffsetDelete"]:
        return None
    topics = [
        OffsetDeleteResponse.OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponse.OffsetDeleteResponsePartition(each.partition_index, error.code)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetDeleteResponse(topics=topics)


def _metadata(request: Any, error: KafkaError, _version: int) -> Message | None:
    if error.code is ErrorCode.REBOOTSTRAP_REQUIRED:
        return MetadataResponse(error_code=error.code)
    topic = MetadataResponse.MetadataResponseTopic
    return MetadataResponse(
        topics=[
            topic(error_code=error.code, name=each.name or "", topic_id=each.topic_id) for each in request.topics or ()
        ]
    )


def _describe_log_dirs(_request: Any, error: KafkaError, version: int) -> Message | None:
    if has_field("DescribeLogDirs", version, "error_code"):
        return None
    return DescribeLogDirsResponse(results=[DescribeLogDirsResponse.DescribeLogDirsResult(error_code=error.code)])


_SHAPES: dict[str, Callable[[Any, KafkaError, int], Message | None]] = {
    "LeaveGroup": _leave_group,
    "OffsetDelete": _offset_delete,
    "Metadata": _metadata,
    "DescribeLogDirs": _describe_log_dirs,
}
"""Where the API's own refusal is not the shape of every error; None: it is of this one."""


def reach(api: str, version: int, code: ErrorCode, paths: frozenset[Path]) -> frozenset[Path]:
    """The elements that an error of some of them hits: all of a group or request, if it is an error of these."""
    if api == "OffsetFetch" and code not in OF_PARTITIONS[api]:
        size = 1 if version >= _GROUPS_SINCE else 0
        return frozenset(path[:size] for path in paths)
    whole = (
        (api == "OffsetDelete" and code not in OF_PARTITIONS[api])
        or (api == "LeaveGroup" and code not in OF_MEMBERS)
        or (api == "Metadata" and code is ErrorCode.REBOOTSTRAP_REQUIRED)
    )
    return frozenset({()}) if whole else paths


def is_patched(api: str, code: ErrorCode, *, names_partitions: bool) -> bool:
    """Whether the error is put into the response that the API gives: the API only reads, and knows the partitions."""
    if api == "Fetch":
        return code not in SESSION_ERRORS
    if api == "OffsetFetch":
        return code in OF_PARTITIONS["OffsetFetch"] or names_partitions
    return api == "Metadata" and names_partitions


def patch_fetch(response: Any, version: int, hit: Iterable[FetchedOffset], code: ErrorCode) -> None:
    """Replaces what a Fetch found in these partitions by the error, or adds it where the session had nothing new."""
    by_id = version >= IDS_SINCE
    topics = {topic.topic_id if by_id else topic.topic: topic for topic in response.responses}
    for each in hit:
        key = each.topic_id if by_id else each.topic
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchResponse.FetchableTopicResponse(topic=each.topic or "", topic_id=each.topic_id)
            response.responses.append(topic)
        topic.partitions = [data for data in topic.partitions if data.partition_index != each.partition]
        topic.partitions.append(refusal(each.partition, code))


def patch_offset_fetch(response: Any, is_hit: IsHit, code: ErrorCode, topic_name: Callable[[Any], str | None]) -> bool:
    """Replaces the offsets of these partitions by the error; returns whether there are any."""
    found = False
    for group_id, topics in [(None, response.topics), *((group.group_id, group.topics) for group in response.groups)]:
        for topic in topics:
            for place, each in enumerate(topic.partitions):
                if is_hit(group_id, topic_name(topic), each.partition_index):
                    topic.partitions[place] = type(each)(each.partition_index, NO_OFFSET, NO_LEADER_EPOCH, "", code)
                    found = True
    return found


def patch_metadata(response: Any, is_hit: IsHit, code: ErrorCode, topic_name: Callable[[Any], str | None]) -> bool:
    """Takes the leaders of these partitions away; returns whether there are any."""
    found = False
    for topic in response.topics:
        for each in topic.partitions:
            if is_hit(None, topic_name(topic), each.partition_index):
                each.error_code, each.leader_id = code, _NO_LEADER
                found = True
    return found


def merge(response: Any, refusal: Any) -> None:
    """Adds the elements of a refusal to a response for the others: topics of both have the partitions of both."""
    for attribute in type(refusal).__slots__:
        added = getattr(refusal, attribute)
        if isinstance(added, list) and added and isinstance(added[0], Message):
            _merge_arrays(getattr(response, attribute), added)


def _merge_arrays(elements: list[Any], added: list[Any]) -> None:
    known = {_key(each): each for each in elements}
    for each in added:
        same = known.get(_key(each)) if _key(each) else None
        if same is None:
            elements.append(each)
        else:
            merge(same, each)


def _key(element: Any) -> tuple[Any, ...]:
    return tuple(getattr(element, each) for each in _KEYS if each in type(element).__slots__)
