"""OffsetDelete (key 47), and the deletion of offsets whose topic is deleted.

Mirrors `OffsetMetadataManager.deleteOffsets` and `onTopicsDeleted`. Offsets in use are protected, as far as the coordinator
knows. It can read subscriptions of protocol type "consumer" only, and it knows what groups with epochs read. So a classic
group of another type that has members refuses the whole request; a consumer group refuses the topics it subscribes to (every
topic, if a member's subscription cannot be read); a streams group refuses the topics that its topology reads. A share group has
no offsets to delete.

A group outlives its last offset: it stays listed as Empty until the next expiry. (Before Kafka 4.0 it does not.) A simple group
consists of its offsets only, so it gets a group record then; otherwise a restart would forget the answer to the client. (Kafka
keeps it in memory alone.)

Deleting also deletes pending offsets of transactions: their marker then has no effect.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice

from coordinator.groups.classic.records import new_group_metadata
from coordinator.groups.group import Group
from coordinator.groups.offsets.records import GroupTombstones, offset_commit_tombstone
from coordinator.groups.offsets.rewound import deleted_facts
from coordinator.groups.offsets.value import NO_TOPIC_ID
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from coordinator.runtime.result import Fact, Record, RequestContext, Result, RunChange

_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition

PIECE_OFFSETS = 200
"""Offsets whose deletion takes about a millisecond."""
LOOKED_AT_FOR_ONE = 50
"""Offsets that are looked at in the time in which one is deleted."""
RunPieces = Callable[[Iterator[None]], None]
"""Runs pieces of work, now or in later turns (api/sliced_work.py)."""


def delete(groups: Groups, request: OffsetDeleteRequest, context: RequestContext, now_ms: int) -> Result:
    """Deletes offsets of topics and partitions that exist. A partition without an offset is answered like one that had one.

    Raises GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP if the group protects all of its offsets. The partitions of a topic that the
    group is subscribed to are answered with GROUP_SUBSCRIBED_TO_TOPIC.
    """
    group = groups.by_id.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.has_offsets:
        raise group.no_offsets()
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
    facts = (*_facts(len(deleted), "OffsetDelete"), *deleted_facts(groups, group, deleted, context))
    is_left_empty = topics and group.is_empty and not pending and deleted.keys() >= committed.keys()
    if is_left_empty and context.behaviours.offset_delete_ends_an_empty_group:
        # Before Kafka 4.0 an empty group ends with its last offset.
        tombstones, disarmed = groups.end(group)
        everything = GroupTombstones()
        everything.add(group.group_id, deleted, tombstones)
        return Result(OffsetDeleteResponse(topics=topics), everything, disarmed, facts=facts)
    records = _delete(groups, group, deleted, now_ms)
    return Result(OffsetDeleteResponse(topics=topics), records, facts=facts)


def topics_deleted(topic_ids: Mapping[str, bytes], run: RunPieces, groups: Groups, now_ms: int) -> Result:
    """Deletes every offset of deleted topics, which are given by name and id: some now, the rest in pieces given to `run`.

    An offset with another topic id stays: it belongs to a later topic of the same name. Each group's offsets are deleted in the
    order in which they came; the topic exists no more, so none is added. Kafka's brokers, too, delete them some time later.
    """
    offsets = groups.offsets
    left = deque({**dict.fromkeys(offsets.by_group), **dict.fromkeys(offsets.pending.by_group)})
    return _delete_some(topic_ids, run, left, groups, now_ms)


def _delete_some(
    topic_ids: Mapping[str, bytes], run: RunPieces, left: deque[str], groups: Groups, now_ms: int
) -> Result:
    """Deletes what takes about a millisecond. `left`: the groups that may have offsets of the topics."""
    records: list[Record] = []
    offsets, count, looked_at = groups.offsets, 0, 0
    while left and count + looked_at // LOOKED_AT_FOR_ONE < PIECE_OFFSETS:
        group_id = left.popleft()
        committed = chain(offsets.of_topics(group_id, topic_ids), offsets.pending.of_topics(group_id, topic_ids))
        theirs = (key for key, each in committed if each.topic_id in (topic_ids[key[0]], NO_TOPIC_ID))
        found = list(islice(theirs, PIECE_OFFSETS))
        deleted = dict.fromkeys(found)
        records += _delete(groups, groups.get_or_simple(group_id), deleted, now_ms)
        count += len(deleted)
        looked_at += 1 + len(offsets.by_group.get(group_id, ()))
        if len(found) == PIECE_OFFSETS:
            left.append(group_id)  # it may have more, which are found when these are gone
            break
    result = Result(records=records, facts=_facts(count, "topic deleted"))
    if left:
        result.asks = (lambda run_change: run(_next_piece(topic_ids, run, left, run_change)),)
    return result


def _next_piece(
    topic_ids: Mapping[str, bytes], run: RunPieces, left: deque[str], run_change: RunChange
) -> Iterator[None]:
    run_change(partial(_delete_some, topic_ids, run, left))
    yield


def _delete(groups: Groups, group: Group, deleted: Iterable[tuple[str, int]], now_ms: int) -> list[Record]:
    records = [offset_commit_tombstone(group.group_id, topic, partition) for topic, partition in deleted]
    if records and group.is_simple:
        committed = groups.offsets.by_group.get(group.group_id, {})
        if len(records) == len(committed.keys() | groups.offsets.pending.partitions(group.group_id)):
            return [new_group_metadata(group.group_id, now_ms), *records]
    return records


def _facts(count: int, reason: str) -> tuple[Fact, ...]:
    return (Fact("offsets_deleted", {"count": count, "reason": reason}),) if count else ()
