"""The offsets of a share group, as administrators see and change them: where its share partitions start (KIP-932).

The share coordinator keeps them; the group knows for which partitions. To change something takes two operations, with the share
coordinator's work between them:

    begin_alteration, begin_deletion         the group may be changed, and has written down what is to be done
    complete_alteration, complete_deletion   it is done

If the server ends between them, the record of the first one says what was begun: the same request again completes it.

Kafka: `GroupMetadataManager.alterShareGroupOffsets`, `sharePartitionsEligibleForOffsetDeletion`,
`completeDeleteShareGroupOffsets`, `initializedShareGroupPartitions`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.groups.held_bytes import PARTITION_BYTES
from coordinator.groups.kinds import Kind
from coordinator.groups.share import records
from coordinator.groups.share.deliveries import AlteredBy
from coordinator.groups.share.group import ShareGroup, find_share_group
from coordinator.groups.share.initialized import NO_STATE_PARTITIONS, Initialized, Topics
from coordinator.groups.share.update import ShareUpdate, take_initialized
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.internal_request import DONE
from coordinator.runtime.result import RequestContext, Result

NOT_EMPTY = "The group is not empty."


class Alteration(NamedTuple):
    """What is to be altered: partitions that exist, by topic id."""

    group_id: str
    topics: Topics


class Altered(NamedTuple):
    """What came of it. Partitions that the share coordinator refused keep what they had."""

    group_id: str
    done: Topics
    failed: Topics
    error: ErrorCode
    """Of a partition that failed."""
    start_offsets: Mapping[tuple[bytes, int], int]
    by: AlteredBy


class Deletion(NamedTuple):
    """The topics whose offsets are to be deleted: id -> name and number of partitions."""

    group_id: str
    topics: Mapping[bytes, tuple[str, int]]


class Deleting(NamedTuple):
    """What the share coordinator must delete."""

    topics: Topics
    without_state: Collection[bytes]
    """Topics that have nothing to delete."""
    has_states: bool
    """Whether the group ever had a state. Of one that had none, Kafka answers nothing about any topic."""


class Deleted(NamedTuple):
    """The topics whose states are gone."""

    group_id: str
    topic_ids: Collection[bytes]


def initialized_partitions(groups: Groups, group_id: str, _context: RequestContext, _now_ms: int) -> Result:
    """Replies the partitions that have a state (Topics). None if there is no such group."""
    group = find_share_group(groups, group_id)
    reply: Any = {} if group is None else group.state_partitions.initialized
    return Result(reply)


def begin_alteration(groups: Groups, wanted: Alteration, _context: RequestContext, now_ms: int) -> Result:
    """Replies the state epoch of the group, which is created if there is none.

    Raises GROUP_ID_NOT_FOUND (the group is of another kind), NON_EMPTY_GROUP, GROUP_MAX_SIZE_REACHED and
    COORDINATOR_NOT_AVAILABLE (the groups are too many, or hold too much).
    """
    group_id = wanted.group_id
    update = ShareUpdate.find(groups, group_id, now_ms)
    if update is None:
        if group_id in groups.by_id:
            raise groups.not_found(group_id, Kind.SHARE)
        groups.admit(group_id)
        update = ShareUpdate(groups, ShareGroup(group_id), now_ms)
    group = update.group
    _fence_members(group)
    result = Result()
    if wanted.topics:
        groups.fence_derived(group, PARTITION_BYTES * sum(len(each.partitions) for each in wanted.topics.values()))
        update.records.append(records.state_partitions(group_id, group.state_partitions.asked(wanted.topics)))
        group.soft.initializing_since_ms.update(dict.fromkeys(wanted.topics, now_ms))
        result = update.result(None)
    epoch: Any = group.group_epoch
    result.reply = epoch
    return result


def complete_alteration(groups: Groups, altered: Altered, _context: RequestContext, now_ms: int) -> Result:
    """Replies DONE."""
    written = []
    facts = []
    for topics, error in ((altered.failed, altered.error), (altered.done, ErrorCode.NONE)):
        if topics:
            result = take_initialized(
                groups,
                now_ms,
                group_id=altered.group_id,
                asked=topics,
                start_offsets=altered.start_offsets,
                error=error,
                by=altered.by,
            )
            written += list(result.records)
            facts += list(result.facts)
    return Result(DONE, written, facts=facts)


def begin_deletion(groups: Groups, wanted: Deletion, _context: RequestContext, _now_ms: int) -> Result:
    """Replies what is to be deleted (Deleting). Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    group_id = wanted.group_id
    if group_id not in groups.by_id:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    group = find_share_group(groups, group_id)
    if group is None:
        raise groups.not_found(group_id, Kind.SHARE)
    _fence_members(group)
    known = group.state_partitions
    deleting: Any = Deleting({}, (), has_states=False)
    if known is NO_STATE_PARTITIONS:
        return Result(deleting)
    found: dict[bytes, Initialized] = {}
    without_state = []
    for topic_id, (name, count) in wanted.topics.items():
        if topic_id in known.initialized:
            found[topic_id] = known.initialized[topic_id]
        elif topic_id in known.deleting:
            found[topic_id] = Initialized(name, frozenset(range(count)))
        else:
            without_state.append(topic_id)
    written = [records.state_partitions(group_id, known.to_delete(found))] if found else []
    deleting = Deleting(found, without_state, has_states=True)
    return Result(deleting, written)


def complete_deletion(groups: Groups, deleted: Deleted, _context: RequestContext, _now_ms: int) -> Result:
    """Replies DONE."""
    group = find_share_group(groups, deleted.group_id)
    if group is None:
        return Result(DONE)
    after = group.state_partitions.deleted(deleted.topic_ids)
    return Result(DONE, [records.state_partitions(group.group_id, after)])


def _fence_members(group: ShareGroup) -> None:
    if group.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY)


def topics_of(partitions: Sequence[tuple[bytes, int]], names: Mapping[bytes, str]) -> Topics:
    """Partitions by topic id, with the names of the topics."""
    found: dict[bytes, set[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: Initialized(names[topic_id], frozenset(indexes)) for topic_id, indexes in found.items()}
