"""OffsetDelete (key 47), and the deletion of offsets whose topic is deleted.

Mirrors `OffsetMetadataManager.deleteOffsets` and `onTopicsDeleted`. Offsets in use are protected, as far as the coordinator
knows. It can read subscriptions of protocol type "consumer" only, and it knows what groups with epochs read. So a classic
group of another type that has members refuses the whole request; a consumer group refuses the topics it subscribes to (every
topic, if a member's subscription cannot be read); a streams group refuses the topics that its topology reads.

A group outlives its last offset: it stays listed as Empty until the next expiry. A simple group consists of its offsets only,
so it gets a group record then; otherwise a restart would forget the answer to the client. (Kafka keeps it in memory alone.)

Deleting also deletes pending offsets of transactions: their marker then has no effect.
"""

from collections.abc import Iterable
from itertools import chain

from coordinator.groups.classic.records import new_group_metadata
from coordinator.groups.group import Group
from coordinator.groups.offsets.records import offset_commit_tombstone
from coordinator.groups.offsets.value import NO_TOPIC_ID
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from coordinator.runtime.result import Fact, Record, RequestContext, Result

_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition


def delete(groups: Groups, request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> Result:
    """Deletes offsets of topics and partitions that exist. A partition without an offset is answered like one that had one.

    Raises GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP if the group protects all of its offsets. The partitions of a topic that the
    group is subscribed to are answered with GROUP_SUBSCRIBED_TO_TOPIC.
    """
    group = groups.by_id.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.protects_all_offsets:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    committed = groups.offsets.by_group.get(request.group_id, {})
    pending = groups.offsets.pending.partitions(request.group_id)
    deleted: dict[tuple[str, int], None] = {}
    topics = []
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        topics.append(_Topic(topic.name, [_Partition(each.partition_index, code) for each in topic.partitions]))
        if not subscribed:
            requested = ((topic.name, each.partition_index) for each in topic.partitions)
            deleted.update((key, None) for key in requested if key in committed or key in pending)
    records = _delete(groups, group, deleted, now_ms)
    return Result(OffsetDeleteResponse(topics=topics), records, facts=_facts(len(deleted), "OffsetDelete"))


def topics_deleted(groups: Groups, topics: Iterable[tuple[str, bytes]], now_ms: int) -> Result:
    """Deletes every offset of deleted topics, which are given by name and id.

    An offset with another topic id stays: it belongs to a later topic of the same name.
    """
    ids = dict(topics)
    records: list[Record] = []
    count = 0
    offsets = groups.offsets
    for group_id in {**dict.fromkeys(offsets.by_group), **dict.fromkeys(offsets.pending.by_group)}:
        committed = chain(offsets.of_topics(group_id, ids), offsets.pending.of_topics(group_id, ids))
        deleted = {key: None for key, each in committed if each.topic_id in (ids[key[0]], NO_TOPIC_ID)}
        count += len(deleted)
        records += _delete(groups, groups.get_or_simple(group_id), deleted, now_ms)
    return Result(records=records, facts=_facts(count, "topic deleted"))


def _delete(groups: Groups, group: Group, deleted: Iterable[tuple[str, int]], now_ms: int) -> list[Record]:
    records = [offset_commit_tombstone(group.group_id, topic, partition) for topic, partition in deleted]
    if records and group.is_simple:
        committed = groups.offsets.by_group.get(group.group_id, {})
        if len(records) == len(committed.keys() | groups.offsets.pending.partitions(group.group_id)):
            return [new_group_metadata(group.group_id, now_ms), *records]
    return records


def _facts(count: int, reason: str) -> tuple[Fact, ...]:
    return (Fact("offsets_deleted", {"count": count, "reason": reason}),) if count else ()
