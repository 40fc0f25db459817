"""The log records of share groups: key types 10 to 15, as Kafka writes them.

Lists are sorted, so that equal states make equal bytes.

Kafka: `GroupCoordinatorRecordHelpers`.
"""

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.share.initialized import StatePartitions, Topics
from coordinator.groups.share.member import STABLE, ShareMember
from coordinator.protocol.messages import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from coordinator.runtime.result import Record

_Target = ShareGroupTargetAssignmentMemberValue.TopicPartition
_Current = ShareGroupCurrentMemberAssignmentValue.TopicPartitions
_Partitions = ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo
_Topic = ShareGroupStatePartitionMetadataValue.TopicInfo


def member_metadata(group_id: str, member: ShareMember) -> Record:
    """Type 10: a member's subscription and the rest of its metadata."""
    value = ShareGroupMemberMetadataValue(member.rack_id, member.client_id, member.client_host, sorted(member.topics))
    return Record(ShareGroupMemberMetadataKey(group_id, member.member_id), value)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Type 11: the group epoch, and the metadata hash it was raised for."""
    return Record(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, metadata_hash))


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Type 12: the group epoch that the target is for; follows the targets of the members that changed."""
    value = ShareGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return Record(ShareGroupTargetAssignmentMetadataKey(group_id), value)


def target_of_member(group_id: str, member_id: str, partitions: Partitions) -> Record:
    """Type 13: a member's part of the target."""
    topics = [_Target(topic_id, sorted(partitions[topic_id])) for topic_id in sorted(partitions)]
    return Record(
        ShareGroupTargetAssignmentMemberKey(group_id, member_id), ShareGroupTargetAssignmentMemberValue(topics)
    )


def current_assignment(group_id: str, member: ShareMember) -> Record:
    """Type 14: a member's epochs and partitions."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_member_epoch,
        STABLE,
        [_Current(topic_id, sorted(member.assigned[topic_id])) for topic_id in sorted(member.assigned)],
    )
    return Record(ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def state_partitions(group_id: str, partitions: StatePartitions) -> Record:
    """Type 15: the partitions that have a state."""
    deleting = partitions.deleting
    value = ShareGroupStatePartitionMetadataValue(
        _partitions(partitions.initializing),
        _partitions(partitions.initialized),
        [_Topic(topic_id, deleting[topic_id]) for topic_id in sorted(deleting)],
    )
    return Record(ShareGroupStatePartitionMetadataKey(group_id), value)


# --- tombstones -------------------------------------------------------------------------------------------------------


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Removes a member."""
    return [
        Record(ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        Record(ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        Record(ShareGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """Removes the group, which has no members."""
    return [
        Record(ShareGroupTargetAssignmentMetadataKey(group_id), None),
        Record(ShareGroupStatePartitionMetadataKey(group_id), None),
        Record(ShareGroupMetadataKey(group_id), None),
    ]


def _partitions(topics: Topics) -> list[_Partitions]:
    return [
        _Partitions(topic_id, topics[topic_id].name, sorted(topics[topic_id].partitions)) for topic_id in sorted(topics)
    ]
