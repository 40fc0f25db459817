"""Applies log records of consumer groups to the state, in the same way live and at load (epochs/replay.py).

Kafka: `GroupMetadataManager.replay`, for key types 3 to 8 and 16.
"""

from dataclasses import replace
from operator import attrgetter

from coordinator.groups.consumer.group import ResolvedRegex, consumer_group_or_new, find_consumer_group
from coordinator.groups.consumer.member import ClassicPart, MemberState
from coordinator.groups.epochs.replay import clear_holdings, clear_target, clear_target_epoch, drop_member, with_epochs
from coordinator.groups.fence import NO_FENCE, Fence, read
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

_MEMBER_STATES = {state.value: state for state in MemberState}
_PLACE = attrgetter("topic_id", "partitions", "assignment_epochs")


def replay_member_metadata(
    groups: Groups, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        drop_member(find_consumer_group(groups, key.group_id), key.member_id)
        return
    group = consumer_group_or_new(groups, key.group_id)
    before = group.member_or_new(key.member_id)
    classic = value.classic_member_metadata
    topics = frozenset(value.subscribed_topic_names)
    group.put(
        replace(
            before,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=before.topics if topics == before.topics else topics,
            regex=value.subscribed_topic_regex or "",
            assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicPart(
                session_timeout_ms=classic.session_timeout_ms,
                protocols=tuple((each.name, each.metadata) for each in classic.supported_protocols),
            ),
        )
    )


def replay_current_assignment(
    groups: Groups,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is None:
        clear_holdings(find_consumer_group(groups, key.group_id), key.member_id)
        return
    group = consumer_group_or_new(groups, key.group_id)
    before = group.member_or_new(key.member_id)
    epoch = value.member_epoch
    assigned = with_epochs(map(_PLACE, value.assigned_partitions), epoch)
    pending_revocation = with_epochs(map(_PLACE, value.partitions_pending_revocation), epoch)
    group.put(
        before.holding(
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_MEMBER_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=before.assigned if assigned == before.assigned else assigned,
            pending_revocation=before.pending_revocation
            if pending_revocation == before.pending_revocation
            else pending_revocation,
            revocation_epoch=value.revocation_epoch,
        )
    )


def replay_group_epoch(groups: Groups, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
    """Its tombstone is the last one when a group is deleted: the group is gone."""
    if value is None:
        groups.remove(key.group_id, Kind.CONSUMER)
    else:
        known = value.fence
        fence = NO_FENCE if known is None else Fence(known.epoch, known.resyncs, read(known.lost), {})
        consumer_group_or_new(groups, key.group_id).set_group_epoch(value.epoch, value.metadata_hash, fence)


def replay_target_epoch(
    groups: Groups,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is None:
        clear_target_epoch(find_consumer_group(groups, key.group_id))
    else:
        consumer_group_or_new(groups, key.group_id).set_target_epoch(value.assignment_epoch, value.assignment_timestamp)


def replay_target_of_member(
    groups: Groups, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None
) -> None:
    if value is None:
        clear_target(find_consumer_group(groups, key.group_id), key.member_id)
        return
    partitions = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions}
    consumer_group_or_new(groups, key.group_id).set_target(key.member_id, partitions)


def replay_regex(
    groups: Groups, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    if value is not None:
        resolved = ResolvedRegex(topics=frozenset(value.topics), version=value.version, timestamp_ms=value.timestamp)
        consumer_group_or_new(groups, key.group_id).set_regex(key.regular_expression, resolved)
    elif (group := find_consumer_group(groups, key.group_id)) is not None:
        group.set_regex(key.regular_expression, None)


def replay_partition_metadata(
    groups: Groups, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    """Notes a record about topics that a Kafka before 4.1 wrote. Nothing needs it; the next group epoch removes it."""
    if value is not None:
        consumer_group_or_new(groups, key.group_id).set_partition_metadata(is_there=True)
    elif (group := find_consumer_group(groups, key.group_id)) is not None:
        group.set_partition_metadata(is_there=False)
