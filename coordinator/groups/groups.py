"""The state machine of one shard: its groups and their committed offsets.

    operation(groups, request, call, now_ms) -> Result      groups/<kind>/<operation>.py
    groups.replay(record)                                   the only way the durable state changes, with its two
    groups.replay_pending(record, producer)                 sisters for offsets of transactions
    groups.replay_marker(marker)
    groups.loaded(now_ms), groups.fire(key, now_ms)         time

There is no operation here, only what belongs to all groups: which record goes to which `replay` function, which timer to which
`fire` function, and when a group is there at all. A group is there as long as anything is known of it: a record in the log,
an offset, or a round of members.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, cast

from coordinator.groups.assignors.assignor import Assignor
from coordinator.groups.assignors.range import RangeAssignor
from coordinator.groups.assignors.uniform import UniformAssignor
from coordinator.groups.classic import timeouts
from coordinator.groups.classic.group import ClassicGroup, State
from coordinator.groups.classic.replay import replay_group_metadata, resume_all
from coordinator.groups.consumer import replay as consumer_replay
from coordinator.groups.consumer import timeouts as consumer_timeouts
from coordinator.groups.consumer.group import ConsumerGroup
from coordinator.groups.group_configs import ConfiguredGroups
from coordinator.groups.offsets import expire
from coordinator.groups.offsets.replay import (
    replay_legacy_offset_commit,
    replay_marker,
    replay_offset_commit,
    replay_pending_offset,
)
from coordinator.groups.offsets.store import Offsets
from coordinator.groups.settings import ALL_EVENTS, NO_EVENTS, GroupsConfig, GroupSettings
from coordinator.groups.streams import replay as streams_replay
from coordinator.groups.streams import timeouts as streams_timeouts
from coordinator.groups.streams.group import StreamsGroup
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    Message,
    OffsetCommitKey,
    OffsetCommitValue,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from coordinator.runtime.result import Marker, Producer, Record, Result, TimerKey


class Catalog(Protocol):
    """The topics, as far as groups need to know them."""

    @property
    def version(self) -> int:
        """Another number after every change: a topic made, grown or deleted."""
        ...

    def topic_names(self) -> Sequence[str]: ...
    def topic_id(self, name: str) -> bytes | None: ...
    def topic_name(self, topic_id: bytes) -> str | None: ...
    def partition_count(self, name: str) -> int | None: ...


BUILT_IN_ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": UniformAssignor(), "range": RangeAssignor()})


class Groups:
    """The groups of one shard. Handlers read everything freely and change only what is not in the log.

    A group id belongs to one kind of group at a time.
    """

    __slots__ = (
        "_count_all",
        "assignors",
        "begun",
        "begun_streams",
        "catalog",
        "classic",
        "commits_fenced",
        "config",
        "consumer",
        "emits_accepted",
        "emits_refused",
        "offsets",
        "settings",
        "streams",
        "txn_commits",
    )  # fmt: skip

    def __init__(
        self,
        config: GroupsConfig,
        catalog: Catalog,
        *,
        settings: GroupSettings | None = None,
        assignors: Mapping[str, Assignor] = BUILT_IN_ASSIGNORS,
        count_all: Callable[[], int] | None = None,
    ) -> None:
        """`settings`: of single groups; `assignors`: by name, the first is the default; `count_all`: groups of all shards."""
        self.config = config
        self.catalog = catalog
        self.settings = ConfiguredGroups(config) if settings is None else settings
        self.assignors = assignors
        self._count_all: Callable[[], int] = count_all or (lambda: self.count)
        self.emits_accepted = config.coordinator_events == ALL_EVENTS
        """Whether commits that are accepted are told as events; and those that are refused."""
        self.emits_refused = config.coordinator_events != NO_EVENTS
        self.classic: dict[str, ClassicGroup] = {}
        """Simple groups (offsets only) are classic groups without members."""
        self.consumer: dict[str, ConsumerGroup] = {}
        self.streams: dict[str, StreamsGroup] = {}
        self.begun: dict[str, ConsumerGroup] = {}
        """Consumer groups as the operation saw them whose records are about to make them; and streams groups."""
        self.begun_streams: dict[str, StreamsGroup] = {}
        self.offsets = Offsets()
        self.commits_fenced: dict[str, int] = {}
        """Commits refused for their epoch since the state was loaded, by reason: for metrics, not part of the durable state."""
        self.txn_commits: dict[str, int] = {}
        """Requests to commit in a transaction, by who could be checked; for metrics, too."""

    def count_fenced(self, reason: str) -> None:
        self.commits_fenced[reason] = self.commits_fenced.get(reason, 0) + 1

    def count_txn_commit(self, checked: str) -> None:
        self.txn_commits[checked] = self.txn_commits.get(checked, 0) + 1

    def replay(self, record: Record) -> None:
        """Takes a record into the durable state. Record types of other group kinds are passed over."""
        replay = REPLAY.get(type(record.key))
        if replay is not None:
            replay(self, record.key, record.value)

    def replay_pending(self, record: Record, producer: Producer) -> None:
        """The same for a record of the producer's open transaction: an offset waits for its marker.

        Only offsets are committed in transactions. Whatever else, or a tombstone, counts at once, as in Kafka.
        """
        key = record.key
        if isinstance(key, OffsetCommitKey) and record.value is not None:
            replay_pending_offset(self, key, cast(OffsetCommitValue, record.value), producer)
        else:
            self.replay(record)

    def replay_marker(self, marker: Marker) -> None:
        replay_marker(self, marker)

    def loaded(self, now_ms: int) -> Result:
        """Every record of the log was replayed: starts the rounds and the timers."""
        result = resume_all(self, now_ms)
        result.timers = [*result.timers, *consumer_timeouts.resume_all(self), *streams_timeouts.resume_all(self)]
        result.timers.append(expire.first_timer(self))
        return result

    def fire(self, key: TimerKey, now_ms: int) -> Result:
        return FIRE[key[0]](self, key, now_ms)

    @property
    def count(self) -> int:
        """Groups of all kinds."""
        return len(self.classic) + len(self.consumer) + len(self.streams)

    def admit(self) -> None:
        """To be asked before an operation makes a group that was not there. Raises GROUP_MAX_SIZE_REACHED."""
        if self._count_all() >= self.config.limit_groups:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The server has as many groups as limit.groups allows.")

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | StreamsGroup | None:
        """The group of this id, of whatever kind."""
        return self.consumer.get(group_id) or self.streams.get(group_id) or self.classic.get(group_id)

    def group_or_simple(self, group_id: str) -> ClassicGroup | ConsumerGroup | StreamsGroup:
        """The group of this id; a simple one is made if nothing was known of it."""
        return self.consumer.get(group_id) or self.streams.get(group_id) or self.classic_or_simple(group_id)

    def consumer_or_made(self, group_id: str) -> ConsumerGroup:
        """The consumer group; made if there is none, and then the id is no classic or simple group's any more."""
        group = self.consumer.get(group_id)
        if group is None:
            self.classic.pop(group_id, None)
            self.streams.pop(group_id, None)
            group = self.consumer[group_id] = ConsumerGroup(group_id)
            begun = self.begun.pop(group_id, None)
            if begun is not None:
                group.remember(begun)
        return group

    def forget_consumer(self, group_id: str) -> None:
        """The consumer group is no more; if it has offsets, a simple group is left."""
        if self.consumer.pop(group_id, None) is not None and self.offsets.knows(group_id):
            self.classic_or_simple(group_id)

    def streams_or_made(self, group_id: str) -> StreamsGroup:
        """The streams group; made if there is none, and then the id is no other group's any more."""
        group = self.streams.get(group_id)
        if group is None:
            self.classic.pop(group_id, None)
            self.consumer.pop(group_id, None)
            group = self.streams[group_id] = StreamsGroup(group_id)
            begun = self.begun_streams.pop(group_id, None)
            if begun is not None:
                group.remember(begun)
        return group

    def forget_streams(self, group_id: str) -> None:
        """The streams group is no more; if it has offsets, a simple group is left."""
        if self.streams.pop(group_id, None) is not None and self.offsets.knows(group_id):
            self.classic_or_simple(group_id)

    def classic_or_simple(self, group_id: str) -> ClassicGroup:
        """The group; a simple one is made if nothing was known of it."""
        group = self.classic.get(group_id)
        if group is None:
            group = self.classic[group_id] = ClassicGroup(group_id, None)
        return group

    def delete(self, group_id: str) -> None:
        """Forgets a group without members; if it has offsets, a simple group is left."""
        group = self.classic.pop(group_id, None)
        assert group is None or not group.members, f"{group_id} has members"
        if self.offsets.knows(group_id) and group_id not in self.consumer and group_id not in self.streams:
            self.classic_or_simple(group_id)

    def forget_if_nothing_is_known(self, group_id: str) -> None:
        """Ends a simple group that lost its last offset."""
        group = self.classic.get(group_id)
        if group is None or group.stored is not None or self.offsets.knows(group_id):
            return
        if group.state is State.EMPTY and not group.pending_joins:
            del self.classic[group_id]


REPLAY: dict[type[Message], Callable[[Groups, Any, Any], None]] = {
    GroupMetadataKey: replay_group_metadata,
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
}
"""Record key -> what its record does."""

FIRE: dict[Any, Callable[[Groups, TimerKey, int], Result]] = {
    "classic-session": timeouts.fire_session,
    "classic-pending": timeouts.fire_pending,
    "classic-join": timeouts.fire_join,
    "classic-sync": timeouts.fire_sync,
    "consumer-session": consumer_timeouts.fire_session,
    "consumer-rebalance": consumer_timeouts.fire_rebalance,
    "consumer-join": consumer_timeouts.fire_join,
    "consumer-sync": consumer_timeouts.fire_sync,
    "consumer-regex": consumer_timeouts.fire_regex,
    "streams-session": streams_timeouts.fire_session,
    "streams-rebalance": streams_timeouts.fire_rebalance,
    "streams-delay": streams_timeouts.fire_delay,
    expire.TIMER[0]: lambda groups, _, now_ms: expire.fire(groups, now_ms),
}
"""First item of a timer's key -> what it does when it fires."""

RECORD_KEYS: tuple[str, ...] = tuple(key.NAME for key in REPLAY)
"""The key messages that a groups' log may hold for us; others are skipped when it is read."""
