"""OffsetDelete (key 47): an administrator takes back offsets; and what becomes of offsets whose topic is deleted.

Offsets of a group in use are protected as far as the coordinator knows what is in use: it understands subscriptions
of protocol type "consumer" only, and of groups that say themselves what they read. So a live classic group of another type
refuses the whole request, and a consumer group refuses the topics it subscribes to - all topics, when a member's subscription
cannot be read; a streams group those that its topology reads.

A group outlives its last offset: it stays listed, Empty, until the next expiry. For a simple group, which consists of
offsets only, that takes a group record of its own, or a restart would contradict the response just sent. (Kafka keeps
such a group in memory alone.)

A pending offset of a transaction is taken back like one that is committed: its marker then brings nothing.
"""

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from coordinator.groups.classic.records import new_group_metadata
from coordinator.groups.group import Group
from coordinator.groups.offsets.records import NO_TOPIC_ID, offset_commit_tombstone
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from coordinator.runtime.result import Fact, Record, RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups
_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition


def delete(groups: "Groups", request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> Result:
    """Every topic and partition asked for exists. A partition without an offset is answered like one that had one."""
    group = groups.by_id.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.protects_all_offsets:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    committed = groups.offsets.by_group.get(request.group_id, {})
    pending = groups.offsets.pending.partitions(request.group_id)
    doomed: dict[tuple[str, int], None] = {}
    topics = []
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        topics.append(_Topic(topic.name, [_Partition(each.partition_index, code) for each in topic.partitions]))
        if not subscribed:
            asked = ((topic.name, each.partition_index) for each in topic.partitions)
            doomed.update((key, None) for key in asked if key in committed or key in pending)
    records = _take_back(groups, group, doomed, now_ms)
    return Result(OffsetDeleteResponse(topics=topics), records, facts=_deletion_facts(len(doomed), "OffsetDelete"))


def topics_deleted(groups: "Groups", topics: Iterable[tuple[str, bytes]], now_ms: int) -> Result:
    """Takes back every offset of topics that are no more, each given as name and id.

    An offset that names another id belongs to a topic of the same name created since, and stays.
    """
    ids = dict(topics)
    records: list[Record] = []
    count = 0
    offsets = groups.offsets
    for group_id in {**dict.fromkeys(offsets.by_group), **dict.fromkeys(offsets.pending.by_group)}:
        committed = chain(offsets.by_group.get(group_id, {}).items(), offsets.pending.values(group_id))
        doomed = {key: None for key, each in committed if key[0] in ids and each.topic_id in (ids[key[0]], NO_TOPIC_ID)}
        count += len(doomed)
        records += _take_back(groups, groups.get_or_simple(group_id), doomed, now_ms)
    return Result(records=records, facts=_deletion_facts(count, "topic deleted"))


def _take_back(groups: "Groups", group: Group, doomed: Iterable[tuple[str, int]], now_ms: int) -> list[Record]:
    records = [offset_commit_tombstone(group.group_id, topic, partition) for topic, partition in doomed]
    if records and group.is_simple:
        committed = groups.offsets.by_group.get(group.group_id, {})
        if len(records) == len(committed.keys() | groups.offsets.pending.partitions(group.group_id)):
            return [new_group_metadata(group.group_id, now_ms), *records]
    return records


def _deletion_facts(count: int, reason: str) -> tuple[Fact, ...]:
    return (Fact("offsets_deleted", {"count": count, "reason": reason}),) if count else ()
