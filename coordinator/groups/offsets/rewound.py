"""Offsets that go back: commits after which records are read again.

Kafka accepts them, and so does this server: a consumer may seek. But a member that was paused, got the new epoch and then
commits what it had read before undoes the work of the next owner, and no epoch shows that. So the commit leaves an event that
says who committed, whose partition it was, and from where to where the offset went.

A commit without a member id is an administrator's if the group has members at other times (kafka-consumer-groups
--reset-offsets, an admin client): Kafka accepts it only while the group is empty. A group that never had members has consumers
that assign partitions to themselves.

A deletion of offsets leaves the same event, because members begin by their auto.offset.reset then.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from coordinator.groups.events import OFFSETS_RESET, OFFSETS_REWOUND, event_only
from coordinator.groups.group import Group
from coordinator.groups.offsets.pending import Partition
from coordinator.groups.offsets.records import OffsetCommits
from coordinator.groups.offsets.value import NO_TOPIC_ID, decode, read_offset
from coordinator.groups.state import Groups
from coordinator.protocol.messages import OffsetsRewoundKey, OffsetsRewoundValue, TxnOffsetCommitRequest
from coordinator.runtime.result import Fact, MessageEvent, RequestContext

BY_MEMBER = "a member committed an earlier offset"
BY_ADMINISTRATOR = "an administrator reset the offsets"
BY_CONSUMER = "a consumer without a group committed an earlier offset"
DELETED = "an administrator deleted the offsets"
NO_OFFSET = -1
"""The committed offset of a partition whose offset was deleted."""
_NAMED_MAX = 10
"""Partitions that a line of the server's log names."""
_DELETED_NAMED_MAX = 200
"""Partitions that the event of a deletion names: a group may have many thousands."""


def go_back(groups: Groups, group_id: str, partitions: Iterable[Partition], offsets: Iterable[int]) -> bool:
    """Whether one of the offsets is earlier than what the group has committed for its partition."""
    committed = groups.offsets.by_group.get(group_id)
    if committed is not None:
        for before, offset in zip(map(committed.get, partitions), offsets):  # noqa: B905 - costs time on every commit
            if before is not None and offset < read_offset(before)[0]:
                return True
    return False


def rewound_facts(groups: Groups, request: Any, records: OffsetCommits, context: RequestContext) -> tuple[Fact, ...]:
    """A fact if an accepted commit takes offsets back; call it before the records are replayed."""
    group_id = request.group_id
    committed = groups.offsets.by_group.get(group_id)
    if committed is None:
        return ()
    found = [
        (topic, index, decode(stored), decode(before))
        for topic, offsets in records.topics
        for index, stored in offsets
        # Most commits end here. A negative offset is larger than any other.
        if (before := committed.get((topic, index))) is not None and stored[2:10] < before[2:10]
    ]
    # A topic that was created again begins again.
    found = [each for each in found if each[3].offset >= 0 and each[2].topic_id == each[3].topic_id]
    if not found:
        return ()
    group = groups.by_id[group_id]
    cause = BY_MEMBER if request.member_id else BY_CONSUMER if group.protocol_type is None else BY_ADMINISTRATOR
    topics: dict[str, OffsetsRewoundValue.TopicOffsets] = {}
    for topic, index, now, previous in found:
        topic_id = groups.catalog.topic_id(topic) or NO_TOPIC_ID
        entry = topics.setdefault(topic, OffsetsRewoundValue.TopicOffsets(topic, topic_id, []))
        owner = group.holder(topic, topic_id, index, groups.catalog)
        entry.partitions.append(OffsetsRewoundValue.PartitionOffset(index, now.offset, previous.offset, owner))
    fields = {
        "group": group_id,
        "cause": cause,
        "member": request.member_id,
        "client": context.client_id,
        "host": context.client_host,
        "principal": context.link.principal,
        "records": sum(before.offset - now.offset for _, _, now, before in found),
        "partitions": [
            f"{topic}-{index}: {before.offset} -> {now.offset}" for topic, index, now, before in found[:_NAMED_MAX]
        ],
    }
    value = OffsetsRewoundValue(
        group_kind=group.kind,
        cause=cause,
        member_id=request.member_id,
        client_id=context.client_id,
        client_host=context.client_host,
        principal=context.link.principal,
        producer_id=request.producer_id if type(request) is TxnOffsetCommitRequest else -1,
        topics=list(topics.values()),
    )
    event = MessageEvent(OffsetsRewoundKey(group_id), value) if groups.emits_refused else None
    return (Fact(OFFSETS_RESET if cause is BY_ADMINISTRATOR else OFFSETS_REWOUND, fields, event),)


def deleted_facts(
    groups: Groups, group: Group, partitions: Iterable[Partition], context: RequestContext
) -> tuple[Fact, ...]:
    """A fact if an administrator deletes committed offsets of the group; call it before the tombstones are replayed."""
    committed = groups.offsets.by_group.get(group.group_id, {})
    topics: dict[str, OffsetsRewoundValue.TopicOffsets] = {}
    for topic, index in islice((each for each in partitions if each in committed), _DELETED_NAMED_MAX):
        topic_id = groups.catalog.topic_id(topic) or NO_TOPIC_ID
        entry = topics.setdefault(topic, OffsetsRewoundValue.TopicOffsets(topic, topic_id, []))
        (previous,) = read_offset(committed[topic, index])
        entry.partitions.append(OffsetsRewoundValue.PartitionOffset(index, NO_OFFSET, previous, None))
    if not topics or not groups.emits_refused:
        return ()
    value = OffsetsRewoundValue(
        group_kind=group.kind,
        cause=DELETED,
        member_id="",
        client_id=context.client_id,
        client_host=context.client_host,
        principal=context.link.principal,
        topics=list(topics.values()),
    )
    return (event_only(MessageEvent(OffsetsRewoundKey(group.group_id), value)),)
