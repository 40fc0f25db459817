"""Applies log records of share groups to the state, in the same way live and at load (epochs/replay.py).

The group is gone with the tombstone of its epoch (type 11), which is the last one.

Kafka: `GroupMetadataManager.replay`, for key types 10 to 15.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.epochs.replay import clear_holdings, clear_target, clear_target_epoch, drop_member
from coordinator.groups.kinds import Kind
from coordinator.groups.share.group import find_share_group, share_group_or_new
from coordinator.groups.share.initialized import NO_STATE_PARTITIONS, Initialized, StatePartitions, Topics
from coordinator.groups.state import Groups
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


def replay_member_metadata(
    groups: Groups, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None
) -> None:
    if value is None:
        drop_member(find_share_group(groups, key.group_id), key.member_id)
        return
    group = share_group_or_new(groups, key.group_id)
    group.put(
        replace(
            group.member_or_new(key.member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )
    )


def replay_current_assignment(
    groups: Groups, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue | None
) -> None:
    if value is None:
        clear_holdings(find_share_group(groups, key.group_id), key.member_id)
        return
    group = share_group_or_new(groups, key.group_id)
    group.put(
        replace(
            group.member_or_new(key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned=_by_id(value.assigned_partitions),
        )
    )


def replay_group_epoch(groups: Groups, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None) -> None:
    if value is None:
        groups.remove(key.group_id, Kind.SHARE)
    else:
        share_group_or_new(groups, key.group_id).set_group_epoch(value.epoch, value.metadata_hash)


def replay_target_epoch(
    groups: Groups,
    key: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is None:
        clear_target_epoch(find_share_group(groups, key.group_id))
    else:
        share_group_or_new(groups, key.group_id).set_target_epoch(value.assignment_epoch, value.assignment_timestamp)


def replay_target_of_member(
    groups: Groups, key: ShareGroupTargetAssignmentMemberKey, value: ShareGroupTargetAssignmentMemberValue | None
) -> None:
    if value is None:
        clear_target(find_share_group(groups, key.group_id), key.member_id)
    else:
        share_group_or_new(groups, key.group_id).set_target(key.member_id, _by_id(value.topic_partitions))


def replay_state_partitions(
    groups: Groups, key: ShareGroupStatePartitionMetadataKey, value: ShareGroupStatePartitionMetadataValue | None
) -> None:
    if value is not None:
        partitions = StatePartitions(
            _named(value.initializing_topics),
            _named(value.initialized_topics),
            {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
        )
        share_group_or_new(groups, key.group_id).set_state_partitions(partitions)
    elif (group := find_share_group(groups, key.group_id)) is not None:
        group.set_state_partitions(NO_STATE_PARTITIONS)


def _by_id(topics: Iterable[Any]) -> Partitions:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def _named(topics: Iterable[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]) -> Topics:
    return {topic.topic_id: Initialized(topic.topic_name, frozenset(topic.partitions)) for topic in topics}
