"""One operation on a share group while it is decided (epochs/update.py), and the steps of its heartbeat.

The steps, in the order in which Kafka writes their records:

    update       the member's metadata
    raise_epoch  the group's epoch, where a subscription or a topic has changed, or partitions have got a state that nobody has
                 yet in the target
    retarget     the target, if the epoch is ahead of it, but not within the assignment interval of the last one (KIP-1263)
    reconcile    the member's step to the target: it has its part at once
    initialize   partitions without a state: the share coordinator is asked for them, and the answer changes the group later

Kafka: `GroupMetadataManager.shareGroupHeartbeat`, `initializeShareGroupState`, `uninitializeShareGroupState`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import ClassVar

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.assignors.simple import NAME, assign
from coordinator.groups.epochs.metadata_hash import topics_hash
from coordinator.groups.epochs.update import MemberTimers, ModernUpdate, RecordTypes
from coordinator.groups.held_bytes import PARTITION_BYTES
from coordinator.groups.kinds import Kind
from coordinator.groups.share import records
from coordinator.groups.share.deliveries import THE_GROUP, AlteredBy, initialized_event
from coordinator.groups.share.group import ShareGroup, session_key
from coordinator.groups.share.initialized import Topics
from coordinator.groups.share.member import NO_PARTITIONS, ShareMember
from coordinator.groups.share_states import NO_START_OFFSET
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message
from coordinator.runtime.result import Ask, Result, RunChange

_NO_PART: Partitions = {}


class ShareUpdate(ModernUpdate[ShareGroup, ShareMember, Partitions]):
    """The update of one share group."""

    __slots__ = ("asked",)

    KIND = Kind.SHARE
    UNITS = "partitions"
    NO_PART = NO_PARTITIONS
    RECORDS: ClassVar[RecordTypes] = records
    # A member has nothing to give up in time: its session is its only timer.
    TIMERS = MemberTimers(session_key, session_key)

    def __init__(self, groups: Groups, group: ShareGroup, now_ms: int) -> None:
        super().__init__(groups, group, now_ms)
        self.asked: Topics = {}
        """The partitions for whose states the share coordinator is to be asked."""

    def advance(self, old: ShareMember, new: ShareMember) -> ShareMember:
        """Takes all steps for a member that is now `new`; returns it as it is after them."""
        group, catalog = self.group, self.groups.catalog
        if new is not old:
            self.records.append(records.member_metadata(self.group_id, new))
        cause, reason = "", None
        if new.topics != old.topics:
            cause = "a member's subscription changed" if old.member_epoch else "a member joined"
        elif group.target_epoch >= group.group_epoch and self._has_unassigned():
            cause = "partitions were initialized"
        names = self._subscribed(old, new)
        if cause or group.soft.catalog_version != catalog.version:
            new_hash = topics_hash(catalog, names)
            group.soft.catalog_version = catalog.version
            if not cause and new_hash != group.metadata_hash:
                cause, reason = "a subscribed topic changed", self.deletions(names)
            if cause:
                self._raise_epoch(new_hash, cause, new.member_id, reason)
        target_epoch, part = self._retarget(new)
        stepped = self._reconcile(new, target_epoch, part, has_changed=bool(cause))
        self._initialize(names)
        return stepped

    # --- the group's epoch --------------------------------------------------------------------------------------------

    def _raise_epoch(self, metadata_hash: int, cause: str, member_id: str, reason: str | None = None) -> None:
        self.group_epoch += 1
        self.records.append(records.group_epoch(self.group_id, self.group_epoch, metadata_hash))
        self.begin_rebalance(cause, member_id, reason)

    def _raise_epoch_without(self, members: Sequence[ShareMember], cause: str, reason: str | None = None) -> None:
        left = dict(self.group.subscribed)
        for member in members:
            for name in member.topics:
                left[name] -= 1
        catalog = self.groups.catalog
        new_hash = topics_hash(catalog, [name for name, count in left.items() if count])
        self.group.soft.catalog_version = catalog.version
        self._raise_epoch(new_hash, cause, members[0].member_id if members else "", reason)

    def _subscribed(self, old: ShareMember, new: ShareMember) -> AbstractSet[str]:
        """The topics that the group will subscribe to."""
        known = self.group.subscribed
        if new.topics == old.topics:
            return known.keys()
        return {name for name, count in known.items() if count > (name in old.topics)} | new.topics

    def _has_unassigned(self) -> bool:
        """Whether the target lacks partitions that have a state, of topics that members subscribe to."""
        group = self.group
        taken: defaultdict[bytes, set[int]] = defaultdict(set)
        for part in group.target.values():
            for topic_id, numbers in part.items():
                taken[topic_id].update(numbers)
        return bool(group.members) and any(
            set(numbers) != taken[topic_id] for topic_id, numbers in self._assignable(group.subscribed.keys()).items()
        )

    def _assignable(self, names: AbstractSet[str]) -> Partitions:
        """The partitions of these topics that have a state; topics that were deleted are left out."""
        topic_name = self.groups.catalog.topic_name
        return {
            topic_id: topic.partitions
            for topic_id, topic in self.group.state_partitions.initialized.items()
            if topic.name in names and topic_name(topic_id) == topic.name
        }

    # --- the target ---------------------------------------------------------------------------------------------------

    def _retarget(self, member: ShareMember) -> tuple[int, Partitions]:
        """The target's epoch and the member's part of it; of a new target, if one is due."""
        group = self.group
        interval_ms = self.groups.settings.share(self.group_id).assignment_interval_ms
        if group.target_epoch >= self.group_epoch or group.target_stands(interval_ms, self.now_ms):
            return group.target_epoch, group.target.get(member.member_id, _NO_PART)
        members = {**group.members, member.member_id: member}
        topics = {member_id: self._topic_ids(each) for member_id, each in members.items()}
        partitions = self._assignable(frozenset().union(*(each.topics for each in members.values())))
        self.groups.fence_derived(group, PARTITION_BYTES * (len(members) + sum(map(len, partitions.values()))))
        target = assign(topics, partitions, group.target)
        self.write_target(target, NAME)
        return self.group_epoch, target[member.member_id]

    def _topic_ids(self, member: ShareMember) -> frozenset[bytes]:
        found = map(self.groups.catalog.topic_id, member.topics)
        return frozenset(each for each in found if each is not None)

    # --- the member ---------------------------------------------------------------------------------------------------

    def _reconcile(self, member: ShareMember, target_epoch: int, part: Partitions, *, has_changed: bool) -> ShareMember:
        """The member after its step, which is written if there is one. `has_changed`: the group's epoch is raised."""
        if not has_changed and member.is_reconciled_to(target_epoch):
            return member
        mine = self._topic_ids(member)
        assigned = {topic_id: numbers for topic_id, numbers in part.items() if topic_id in mine}
        if member.is_reconciled_to(target_epoch):
            if assigned == member.assigned:
                return member
            stepped = replace(member, assigned=assigned)
        else:
            stepped = replace(
                member, member_epoch=target_epoch, previous_member_epoch=member.member_epoch, assigned=assigned
            )
        self.write_step(member, stepped, target_epoch)
        return stepped

    # --- states of share partitions -----------------------------------------------------------------------------------

    def _initialize(self, names: AbstractSet[str]) -> None:
        """Asks for the states of the partitions that have none, unless that was done a short while ago."""
        group, since_ms = self.group, self.group.soft.initializing_since_ms
        retry_ms = self.groups.config.group_share_initialize_retry_interval_ms
        under_way = {each for each, asked_ms in since_ms.items() if 0 <= self.now_ms - asked_ms < retry_ms}
        self.asked = group.state_partitions.missing(names, self.groups.catalog, under_way)
        if self.asked:
            self.records.append(records.state_partitions(self.group_id, group.state_partitions.asked(self.asked)))
            since_ms.update(dict.fromkeys(self.asked, self.now_ms))

    def result(self, reply: Message | None) -> Result:
        result = super().result(reply)
        if self.asked:
            result.asks = (self._ask(),)
        return result

    def _ask(self) -> Ask:
        known, states = self.group.state_partitions, self.groups.share_states
        group_id, epoch, asked = self.group_id, self.group_epoch, self.asked
        # A topic that has grown: all records of its new partitions are to be read, since they came after the group did.
        start_offsets = {
            (topic_id, number): 0 if known.knows(topic_id) else NO_START_OFFSET
            for topic_id, topic in asked.items()
            for number in sorted(topic.partitions)
        }

        def ask(run_change: RunChange) -> None:
            states.initialize(
                group_id,
                epoch,
                start_offsets,
                lambda error: run_change(
                    partial(take_initialized, group_id=group_id, asked=asked, start_offsets=start_offsets, error=error)
                ),
            )

        return ask


def take_initialized(
    groups: Groups,
    now_ms: int,
    *,
    group_id: str,
    asked: Topics,
    start_offsets: Mapping[tuple[bytes, int], int],
    error: ErrorCode,
    by: AlteredBy = THE_GROUP,
) -> Result:
    """Takes the answer of the share coordinator: the partitions have states now, or will be asked for again."""
    update = ShareUpdate.find(groups, group_id, now_ms)
    if update is None:
        return Result()
    known, since_ms = update.group.state_partitions, update.group.soft.initializing_since_ms
    # Topics may have been deleted meanwhile.
    asked = {topic_id: topic for topic_id, topic in asked.items() if topic_id in known.initializing}
    for topic_id in asked:
        since_ms.pop(topic_id, None)
    if not asked:
        return Result()
    after = known.failed(asked) if error else known.made(asked)
    update.records.append(records.state_partitions(group_id, after))
    update.emit(
        "share_partitions_initialized",
        initialized_event(group_id, asked, start_offsets, error, by),
        partitions=sum(len(topic.partitions) for topic in asked.values()),
        error=ErrorCode(error).name,
        principal=by.principal,
    )
    return update.result(None)


def topics_deleted(topic_ids: Mapping[str, bytes], groups: Groups, _now_ms: int) -> Result:
    """Forgets the states of deleted topics, given by name and id (Kafka: `maybeCleanupShareGroupState`)."""
    ids = frozenset(topic_ids.values())
    written = []
    for group in groups.of_kind(Kind.SHARE):
        assert isinstance(group, ShareGroup)
        after = group.state_partitions.without_topics(ids)
        if after is not group.state_partitions:
            written.append(records.state_partitions(group.group_id, after))
    return Result(records=written)
