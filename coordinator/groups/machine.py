"""The groups of one shard as a state machine. Only this module and classic_protocol.py know every kind of group.

    groups.replay(record)                       the only way the durable state changes, with its two siblings for
    groups.replay_pending(record, producer)     offsets of transactions
    groups.replay_marker(marker)
    groups.loaded(now_ms)                       every record was read: rebalances resume, timers start
    groups.fire(key, now_ms)                    a timer fired
    groups.restore(group_id, now_ms)            an operation on this group failed half-way
    groups.start_rebalance(group, ...)          a rebalance that nothing in the group asks for
    groups.end(group)                           the records that delete an empty group

There is no operation here, only tables: record key -> replay, timer -> handler, kind -> rebalance, kind -> tombstones. Live
and at a load the same functions run, so a restart is not a second program. Mirrors the role of `GroupCoordinatorShard`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from coordinator.groups import rebalance_interval
from coordinator.groups.administration import ActOnGroup, ActOnMember
from coordinator.groups.classic import administration as classic_administration
from coordinator.groups.classic import timeouts as classic_timeouts
from coordinator.groups.classic.administration import removal_records
from coordinator.groups.classic.administration import start_rebalance as start_classic_rebalance
from coordinator.groups.classic.describe import details as classic_details
from coordinator.groups.classic.group import ClassicGroup
from coordinator.groups.classic.member import session_key as classic_session_key
from coordinator.groups.classic.records import group_tombstones as classic_tombstones
from coordinator.groups.classic.replay import (
    replay_forced_rebalance,
    replay_generation,
    replay_group_metadata,
    replay_resync,
    restart_round,
    resume_all,
)
from coordinator.groups.classic.round import pending_disarmed
from coordinator.groups.consumer import replay as consumer_replay
from coordinator.groups.consumer import timeouts as consumer_timeouts
from coordinator.groups.consumer.describe import details as consumer_details
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.records import group_tombstones as consumer_tombstones
from coordinator.groups.consumer.update import ConsumerUpdate
from coordinator.groups.epochs import administration
from coordinator.groups.epochs.administration import start_rebalance
from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.fence import NO_FENCE
from coordinator.groups.force_rebalance import ForceRebalance
from coordinator.groups.group import Group
from coordinator.groups.migration.downgrade import downgrade_without, may_downgrade_without
from coordinator.groups.migration.upgrade import group_to_join
from coordinator.groups.offsets import expire
from coordinator.groups.offsets.replay import (
    replay_legacy_offset_commit,
    replay_marker,
    replay_offset_commit,
    replay_pending_offset,
)
from coordinator.groups.share import replay as share_replay
from coordinator.groups.share import timeouts as share_timeouts
from coordinator.groups.share.describe import details as share_details
from coordinator.groups.share.group import ShareGroup
from coordinator.groups.share.records import group_tombstones as share_tombstones
from coordinator.groups.share.update import ShareUpdate
from coordinator.groups.state import Groups
from coordinator.groups.streams import replay as streams_replay
from coordinator.groups.streams import timeouts as streams_timeouts
from coordinator.groups.streams.describe import details as streams_details
from coordinator.groups.streams.group import StreamsGroup, initial_delay_key
from coordinator.groups.streams.records import group_tombstones as streams_tombstones
from coordinator.groups.streams.update import StreamsUpdate
from coordinator.protocol.messages import (
    ClassicGroupForcedRebalanceKey,
    ClassicGroupGenerationKey,
    ClassicGroupResyncKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LegacyOffsetCommitKey,
    Message,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupHeartbeatRequest,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupHeartbeatRequest,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    SyncGroupRequest,
)
from coordinator.protocol.releases import Behaviours
from coordinator.runtime.result import Marker, Producer, Record, Result, Timer, TimerKey


class GroupMachine(Groups):
    """The groups of one shard, with everything that takes knowledge of all kinds."""

    __slots__ = ()

    # --- replay -------------------------------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Applies a record to the durable state. Record types that are not in `REPLAY` change nothing."""
        replay = REPLAY.get(type(record.key))
        if replay is not None:
            replay(self, record.key, record.value)

    def replay_pending(self, record: Record, producer: Producer) -> None:
        """Applies a record of the producer's open transaction: an offset waits for the transaction's marker.

        Only offsets are committed in transactions. Any other record, and a tombstone, applies at once, as in Kafka.
        """
        key = record.key
        if isinstance(key, OffsetCommitKey) and record.value is not None:
            replay_pending_offset(self, key, cast(OffsetCommitValue, record.value), producer)
        else:
            self.replay(record)

    def replay_marker(self, marker: Marker) -> None:
        """Ends a producer's transaction: its pending offsets become committed ones, or are dropped."""
        replay_marker(self, marker)

    # --- time ---------------------------------------------------------------------------------------------------------

    def loaded(self, now_ms: int) -> Result:
        """Call once, when every record of the log was replayed: resumes classic groups and starts all timers."""
        result = resume_all(self, now_ms)
        result.timers = [*result.timers, *consumer_timeouts.resume_all(self), *streams_timeouts.resume_all(self)]
        result.timers += share_timeouts.resume_all(self)
        result.timers += rebalance_interval.timers_after_load(self)
        result.timers.append(expire.first_timer(self))
        return result

    def fire(self, key: TimerKey, now_ms: int) -> Result:
        """Runs what a timer was armed for; what it watched may be gone, and then nothing happens."""
        return FIRE[key[0]](self, key, now_ms)

    # --- failed operations --------------------------------------------------------------------------------------------

    def scope_of(self, request: Any) -> str | None:
        """The group whose soft state the operation of this request may change; None: it changes state by records only."""
        return request.group_id if type(request) in CHANGES_SOFT_STATE else None

    def scope_of_timer(self, key: TimerKey) -> str | None:
        """The group of a timer; None for the one that serves all groups."""
        return str(key[1]) if len(key) > 1 else None

    def restore(self, scope: str | None, now_ms: int) -> Result | None:
        """Drops the soft state of a group, which a failed operation may have left half changed, as a restart would.

        Returns what starts its round and its timers again; None if only a load of the shard can.
        """
        if scope is None:
            return Result()
        self.uncommitted_groups.pop(scope, None)
        group = self.by_id.get(scope)
        return Result() if group is None else RESTORE[group.kind](self, group, now_ms)

    # --- the kinds ----------------------------------------------------------------------------------------------------

    def simple_group(self, group_id: str) -> Group:
        return ClassicGroup(group_id, None, NO_FENCE)

    def start_rebalance(self, group: Group, cause: str, reason: str | None, now_ms: int) -> Result | None:
        return START_REBALANCE[group.kind](self, group, cause, reason, now_ms)

    def session_key(self, group: Group, member_id: str) -> TimerKey:
        return SESSION_KEY[group.kind](group.group_id, member_id)

    def evict(self, group: Group, member_id: str, cause: str, reason: str | None, now_ms: int) -> Result:
        return EVICT[group.kind](self, group, member_id, cause, reason, now_ms)

    def removal_records(self, group: Group, member_id: str, cause: str, reason: str | None) -> list[Record]:
        return removal_records(group, member_id, cause, reason) if isinstance(group, ClassicGroup) else []

    def bump_epoch(self, group: Group, cause: str, reason: str | None, now_ms: int) -> Result:
        return BUMP_EPOCH[group.kind](self, group, cause, reason, now_ms)

    def update_to_join(self, group_id: str, member_id: str, behaviours: Behaviours, now_ms: int) -> ConsumerUpdate:
        return group_to_join(self, group_id, member_id, behaviours, now_ms)

    def downgrades_without(self, update: ConsumerUpdate, leaving: Sequence[ConsumerMember]) -> bool:
        if not may_downgrade_without(update.groups, update.group, leaving):
            return False
        downgrade_without(update, leaving)
        return True

    def end(self, group: Group) -> tuple[list[Record], Sequence[Timer]]:
        tombstones, timers = END[group.kind](group)
        return tombstones, [*timers, *rebalance_interval.disarmed(self, group.group_id)]


REPLAY: dict[type[Message], Callable[[Groups, Any, Any], None]] = {
    GroupMetadataKey: replay_group_metadata,
    ClassicGroupGenerationKey: replay_generation,
    ClassicGroupForcedRebalanceKey: replay_forced_rebalance,
    ClassicGroupResyncKey: replay_resync,
    OffsetCommitKey: replay_offset_commit,
    LegacyOffsetCommitKey: replay_legacy_offset_commit,
    ConsumerGroupMetadataKey: consumer_replay.replay_group_epoch,
    ConsumerGroupPartitionMetadataKey: consumer_replay.replay_partition_metadata,
    ConsumerGroupMemberMetadataKey: consumer_replay.replay_member_metadata,
    ConsumerGroupTargetAssignmentMetadataKey: consumer_replay.replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: consumer_replay.replay_target_of_member,
    ConsumerGroupCurrentMemberAssignmentKey: consumer_replay.replay_current_assignment,
    ConsumerGroupRegularExpressionKey: consumer_replay.replay_regex,
    StreamsGroupMetadataKey: streams_replay.replay_group_epoch,
    StreamsGroupMemberMetadataKey: streams_replay.replay_member_metadata,
    StreamsGroupTargetAssignmentMetadataKey: streams_replay.replay_target_epoch,
    StreamsGroupTargetAssignmentMemberKey: streams_replay.replay_target_of_member,
    StreamsGroupCurrentMemberAssignmentKey: streams_replay.replay_current_assignment,
    StreamsGroupTopologyKey: streams_replay.replay_topology,
    ShareGroupMemberMetadataKey: share_replay.replay_member_metadata,
    ShareGroupMetadataKey: share_replay.replay_group_epoch,
    ShareGroupTargetAssignmentMetadataKey: share_replay.replay_target_epoch,
    ShareGroupTargetAssignmentMemberKey: share_replay.replay_target_of_member,
    ShareGroupCurrentMemberAssignmentKey: share_replay.replay_current_assignment,
    ShareGroupStatePartitionMetadataKey: share_replay.replay_state_partitions,
}
"""Record key -> what its record does to the state."""

FIRE: dict[Any, Callable[[Groups, TimerKey, int], Result]] = {
    "classic-session": classic_timeouts.fire_session,
    "classic-pending": classic_timeouts.fire_pending,
    "classic-join": classic_timeouts.fire_join,
    "classic-sync": classic_timeouts.fire_sync,
    "classic-resync": classic_timeouts.fire_resync,
    "consumer-session": consumer_timeouts.fire_session,
    "consumer-rebalance": consumer_timeouts.fire_rebalance,
    "consumer-join": consumer_timeouts.fire_join,
    "consumer-sync": consumer_timeouts.fire_sync,
    "consumer-regex": consumer_timeouts.fire_regex,
    "streams-session": streams_timeouts.fire_session,
    "streams-rebalance": streams_timeouts.fire_rebalance,
    "streams-delay": streams_timeouts.fire_delay,
    "share-session": share_timeouts.fire_session,
    rebalance_interval.TIMER: rebalance_interval.fire,
    expire.TIMER[0]: lambda groups, _, now_ms: expire.fire(groups, now_ms),
}
"""First item of a timer's key -> what happens when it fires."""


START_REBALANCE: tuple[Callable[[Groups, Any, str, str | None, int], Result | None], ...] = (
    start_classic_rebalance,
    partial(start_rebalance, ConsumerUpdate),
    partial(start_rebalance, StreamsUpdate),
    partial(start_rebalance, ShareUpdate),
)
"""Kind -> the start of a rebalance from outside."""


SESSION_KEY: tuple[Callable[[str, str], TimerKey], ...] = (
    classic_session_key,
    ConsumerUpdate.TIMERS.session,
    StreamsUpdate.TIMERS.session,
    ShareUpdate.TIMERS.session,
)
"""Kind -> the timer of a member's session."""

EVICT: tuple[Callable[[Groups, Any, str, str, str | None, int], Result], ...] = (
    classic_administration.evict,
    partial(administration.evict, ConsumerUpdate),
    partial(administration.evict, StreamsUpdate),
    partial(administration.evict, ShareUpdate),
)
"""Kind -> the removal of a member by an administrator."""

BUMP_EPOCH: tuple[Callable[[Groups, Any, str, str | None, int], Result], ...] = (
    classic_administration.bump_epoch,
    partial(administration.bump_epoch, ConsumerUpdate),
    partial(administration.bump_epoch, StreamsUpdate),
    partial(administration.bump_epoch, ShareUpdate),
)
"""Kind -> the next generation or group epoch by an administrator."""


def _end_classic(group: ClassicGroup) -> tuple[list[Record], Sequence[Timer]]:
    return classic_tombstones(group), pending_disarmed(group)


def _end_consumer(group: ConsumerGroup) -> tuple[list[Record], Sequence[Timer]]:
    return consumer_tombstones(group, ()), ()


def _end_streams(group: StreamsGroup) -> tuple[list[Record], Sequence[Timer]]:
    return streams_tombstones(group.group_id), (Timer(initial_delay_key(group.group_id), None),)


def _end_share(group: ShareGroup) -> tuple[list[Record], Sequence[Timer]]:
    return share_tombstones(group.group_id), ()


END: tuple[Callable[[Any], tuple[list[Record], Sequence[Timer]]], ...] = (
    _end_classic, _end_consumer, _end_streams, _end_share,
)  # fmt: skip
"""Kind -> the tombstones that delete an empty group, and its timers, disarmed."""


def _restore_modern(groups: Groups, group: ModernGroup[Any, Any, Any], now_ms: int) -> Result:
    group.drop_soft_state()
    return Result()


RESTORE: tuple[Callable[[Groups, Any, int], Result | None], ...] = (
    restart_round, _restore_modern, _restore_modern, _restore_modern,
)  # fmt: skip
"""Kind -> what drops a group's soft state and starts it again."""

CHANGES_SOFT_STATE: frozenset[type[Any]] = frozenset(
    {
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        ConsumerGroupHeartbeatRequest,
        StreamsGroupHeartbeatRequest,
        ShareGroupHeartbeatRequest,
        ForceRebalance,
        ActOnMember,
        ActOnGroup,
    }
)
"""The requests whose operations change rounds and other soft state. All others change the state by their records only."""

DETAILS: tuple[Callable[[Any, Any], dict[str, Any]], ...] = (
    classic_details, consumer_details, streams_details, share_details,
)  # fmt: skip
"""Kind -> everything about a group as plain values (`/v1/groups/{group}`)."""

RECORD_KEYS: tuple[str, ...] = tuple(key.NAME for key in REPLAY)
"""The key messages that the log of groups may hold for us; records of other types are skipped when it is read."""
