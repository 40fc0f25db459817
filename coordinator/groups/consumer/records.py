"""The log records of consumer groups: key types 3 to 8 and 16, as Kafka writes them.

Lists are sorted, so that equal states make equal bytes. Two fields have a default in Kafka's definitions that is *not* null,
although it looks like it, and must be written where they are null or empty: ClassicMemberMetadata (a record without it is read
as a classic member with no protocols) and AssignmentEpochs.

RevocationEpoch is ours: a tagged field under the number of the proposal that asks for it (KAFKA-19779). So is the fence of a
group that was a classic one (fence.py). Kafka's broker and tools skip both.

Kafka: `GroupCoordinatorRecordHelpers`.
"""

from collections.abc import Iterable

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.epochs.member import PartitionEpochs
from coordinator.groups.fence import NO_FENCE, Fence, written
from coordinator.protocol.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coordinator.runtime.result import Record

_ClassicPart = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
_ClassicProtocol = ConsumerGroupMemberMetadataValue.ClassicProtocol
_Target = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
_Current = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions


def member_metadata(group_id: str, member: ConsumerMember) -> Record:
    """Type 5: a member's subscription and the rest of its metadata."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None
        if classic is None
        else _ClassicPart(
            classic.session_timeout_ms, [_ClassicProtocol(name, metadata) for name, metadata in classic.protocols]
        ),
    )
    return Record(ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def current_assignment(group_id: str, member: ConsumerMember) -> Record:
    """Type 8: a member's epochs and holdings."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_member_epoch,
        member.state,
        _current(member.assigned),
        _current(member.pending_revocation),
        member.revocation_epoch,
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def group_epoch(group_id: str, epoch: int, metadata_hash: int, fence: Fence) -> Record:
    """Type 3: the group epoch, the metadata hash it was raised for, and the fence of the epoch in which it was converted."""
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    if fence is not NO_FENCE:
        lost = written(fence.lost, ConsumerGroupMetadataValue.LostByMember, ConsumerGroupMetadataValue.LostTopic)
        value.fence = ConsumerGroupMetadataValue.ResyncedEpoch(fence.epoch, fence.resyncs, lost)
    return Record(ConsumerGroupMetadataKey(group_id), value)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Type 6: the group epoch that the target is for; follows the targets of the members that changed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def target_of_member(group_id: str, member_id: str, partitions: Partitions) -> Record:
    """Type 7: a member's part of the target."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        [_Target(topic_id, sorted(partitions[topic_id])) for topic_id in sorted(partitions)]
    )
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def resolved_regex(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    """Type 16: the topics that a pattern matches."""
    value = ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms)
    return Record(ConsumerGroupRegularExpressionKey(group_id, regex), value)


# --- tombstones -------------------------------------------------------------------------------------------------------


def regex_tombstone(group_id: str, regex: str) -> Record:
    return Record(ConsumerGroupRegularExpressionKey(group_id, regex), None)


def partition_metadata_tombstone(group_id: str) -> Record:
    """Removes a record of type 4, which an older Kafka left behind; nobody writes it any more."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Removes a member."""
    return [
        Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        Record(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        Record(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group: ConsumerGroup, member_ids: Iterable[str]) -> list[Record]:
    """Removes the group with these members, one record type after the other, as Kafka does."""
    group_id, members = group.group_id, list(member_ids)
    return [
        *(Record(ConsumerGroupCurrentMemberAssignmentKey(group_id, each), None) for each in members),
        *(Record(ConsumerGroupTargetAssignmentMemberKey(group_id, each), None) for each in members),
        Record(ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
        *(Record(ConsumerGroupMemberMetadataKey(group_id, each), None) for each in members),
        *(regex_tombstone(group_id, regex) for regex in group.regexes),
        partition_metadata_tombstone(group_id),
        Record(ConsumerGroupMetadataKey(group_id), None),
    ]


def _current(held: PartitionEpochs) -> list[_Current]:
    topics = []
    for topic_id in sorted(held):
        epochs = held[topic_id]
        partitions = sorted(epochs)
        topics.append(_Current(topic_id, partitions, [epochs[partition] for partition in partitions]))
    return topics
