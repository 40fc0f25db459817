"""One operation on a consumer group while it is decided (epochs/update.py), and the steps of its heartbeat.

The steps, in the order in which Kafka writes their records:

    update      the member's metadata, and the patterns that it was the last to use
    raise_epoch the group's epoch, where the subscriptions or the members have changed
    retarget    the target, if the epoch is ahead of it, but not within the assignment interval of the last one
    reconcile   the member's next step towards the target

No timer ends the assignment interval: the first heartbeat after it finds the target behind and computes it (KIP-1263).

Kafka: the second half of `GroupMetadataManager.consumerGroupHeartbeat`, with `maybeUpdateTargetAssignment` and
`maybeReconcile`; `TargetAssignmentBuilder`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar

from coordinator.groups.assignors.assignor import AssignorError, GroupSpec, MemberSpec, Partitions, run
from coordinator.groups.consumer import records
from coordinator.groups.consumer.group import (
    NO_PARTITIONS,
    ConsumerGroup,
    join_key,
    rebalance_key,
    session_key,
    sync_key,
)
from coordinator.groups.consumer.member import ConsumerMember, MemberState
from coordinator.groups.consumer.preferred_assignor import changes_assignor, upcoming_assignor
from coordinator.groups.consumer.reconcile import reconcile
from coordinator.groups.consumer.subscription import check_regex, follow, metadata_hash, refresh_timer, topic_ids
from coordinator.groups.epochs.member import Owned
from coordinator.groups.epochs.update import MemberTimers, ModernUpdate, RecordTypes
from coordinator.groups.held_bytes import PARTITION_BYTES
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.runtime.result import RequestContext, Result


class ConsumerUpdate(ModernUpdate[ConsumerGroup, ConsumerMember, Partitions]):
    """The update of one consumer group."""

    __slots__ = ("on_result",)

    KIND = Kind.CONSUMER
    UNITS = "partitions"
    NO_PART = NO_PARTITIONS
    RECORDS: ClassVar[RecordTypes] = records
    TIMERS = MemberTimers(session_key, rebalance_key, (join_key, sync_key))

    def __init__(self, groups: Groups, group: ConsumerGroup, now_ms: int) -> None:
        super().__init__(groups, group, now_ms)
        self.on_result: Callable[[], None] | None = None
        """Ends the round of a classic group; called once nothing can be refused any more."""

    def result(self, reply: Message | None) -> Result:
        result = super().result(reply)
        if self.on_result is not None:
            # What it still collects is in the lists that the result has.
            self.on_result()
        return result

    # --- the steps ----------------------------------------------------------------------------------------------------

    def advance(
        self, old: ConsumerMember, new: ConsumerMember, owned: Owned, context: RequestContext, *, enforces: bool = False
    ) -> ConsumerMember:
        """Takes all steps for a member that is now `new`; returns it as it is after them. `enforces`: as in `catch_up`.

        Raises INVALID_REGULAR_EXPRESSION, FENCED_MEMBER_EPOCH, UNKNOWN_SERVER_ERROR (the assignor failed).
        """
        target_epoch, target = self.catch_up(old, new, context, enforces=enforces)
        changed = new.topics != old.topics or new.regex != old.regex
        return self.reconcile(new, target_epoch, target, owned, subscription_changed=changed)

    def catch_up(
        self, old: ConsumerMember, new: ConsumerMember, context: RequestContext, *, enforces: bool = False
    ) -> tuple[int, Partitions]:
        """Takes the steps of the group; returns the target's epoch and the member's part of it. Raises as `advance`.

        `enforces`: the member asks for a rebalance (KIP-568), for which no assignment interval is waited.
        """
        group, catalog = self.group, self.groups.catalog
        topics_changed = new.topics != old.topics
        regex_changed = new.regex != old.regex
        is_new_regex = bool(regex_changed and new.regex and new.regex not in group.regex_members)
        if is_new_regex:
            check_regex(self.groups, new.regex)
        if new is not old:
            self.records.append(records.member_metadata(self.group_id, new))
        regex_dropped = regex_changed and bool(old.regex) and group.regex_members.get(old.regex) == 1
        if regex_dropped:
            self.records.append(records.regex_tombstone(self.group_id, old.regex))
        cause = ""
        if topics_changed:
            cause = "a member's subscription changed" if old.member_epoch else "a member joined"
        elif regex_changed and (new.regex in group.regexes if new.regex else True):
            cause = "a member's pattern changed"
        elif (
            new.classic is None
            and not context.behaviours.preferring_an_assignor_is_no_reason
            and changes_assignor(self.groups, group, old, new)
        ):
            cause = "the preferred assignor changed"
        elif self.needs_another_epoch(new):
            cause = "a member came back that had lost partitions in this epoch"
        elif enforces and group.group_epoch == group.target_epoch:
            cause = "a member enforces a rebalance"
        has_changed = follow(group, catalog)
        if cause or has_changed:
            self._raise_epoch_if_due(old, new, cause, is_known=not has_changed, regex_dropped=regex_dropped)
        elif regex_dropped:
            group.soft.catalog_version = None
        timer = refresh_timer(self.groups, group, self.now_ms, is_new=is_new_regex)
        if timer is not None:
            self.timers.append(timer)
            group.soft.may_describe = context.may_describe
        return self._retarget(old, new, at_once=enforces)

    def _raise_epoch_if_due(
        self, old: ConsumerMember, new: ConsumerMember, cause: str, *, is_known: bool, regex_dropped: bool
    ) -> None:
        group = self.group
        removed, added = self._topics_changed(old, new, regex_dropped=regex_dropped)
        new_hash = metadata_hash(group, removed, added, self.groups.catalog, is_known=is_known)
        group.soft.catalog_version = self.groups.catalog.version
        reason = None
        if not cause and new_hash != group.metadata_hash:
            cause, reason = "a subscribed topic changed", self.deletions(group.subscribed)
        if cause:
            self.raise_epoch(new_hash, cause, new.member_id, reason)
        if group.has_partition_metadata:
            self.records.append(records.partition_metadata_tombstone(self.group_id))

    def raise_epoch(self, new_hash: int, cause: str, member_id: str, reason: str | None = None) -> None:
        """Writes the next group epoch, and begins a rebalance."""
        self.group_epoch += 1
        self.records.append(records.group_epoch(self.group_id, self.group_epoch, new_hash, self.group.fence_in_force()))
        self.begin_rebalance(cause, member_id, reason)

    def _convert_without(self, members: Sequence[ConsumerMember]) -> bool:
        """The group becomes a classic one if all remaining members speak the classic protocol (migration/downgrade.py)."""
        return self.groups.downgrades_without(self, members)

    def _raise_epoch_without(self, members: Sequence[ConsumerMember], cause: str, reason: str | None = None) -> None:
        group, catalog = self.group, self.groups.catalog
        fewer: Counter[str] = Counter()
        users = Counter(member.regex for member in members if member.regex)
        for regex, count in users.items():
            if group.regex_members[regex] == count:
                self.records.append(records.regex_tombstone(self.group_id, regex))
                if regex in group.regexes:
                    fewer.update(group.regexes[regex].topics)
        for member in members:
            fewer.update(member.topics)
        removed = {name for name, count in fewer.items() if group.subscribed[name] == count}
        is_known = not follow(group, catalog)
        new_hash = metadata_hash(group, removed, set(), catalog, is_known=is_known)
        group.soft.catalog_version = catalog.version
        self.raise_epoch(new_hash, cause, members[0].member_id if members else "", reason)

    def _topics_changed(
        self, old: ConsumerMember, new: ConsumerMember, *, regex_dropped: bool
    ) -> tuple[set[str], set[str]]:
        """Topic names to which the group will no longer be subscribed, and those to which it newly will be."""
        subscribed = self.group.subscribed
        fewer = dict.fromkeys(old.topics - new.topics, 1)
        if regex_dropped and old.regex in self.group.regexes:
            for name in self.group.regexes[old.regex].topics:
                fewer[name] = fewer.get(name, 0) + 1
        added = {name for name in new.topics - old.topics if name not in subscribed}
        removed = {
            name
            for name, by in fewer.items()
            if subscribed.get(name, 0) <= by and not (name in new.topics and name not in old.topics)
        }
        return removed, added

    # --- the target ---------------------------------------------------------------------------------------------------

    def _retarget(self, old: ConsumerMember, new: ConsumerMember, *, at_once: bool) -> tuple[int, Partitions]:
        """The target's epoch and the member's part of it; of a new target, if one is due."""
        group = self.group
        before = self.part_before(new.member_id) or NO_PARTITIONS
        if group.target_epoch >= self.group_epoch:
            return group.target_epoch, before
        interval_ms = self.groups.settings.consumer(self.group_id).assignment_interval_ms
        if not at_once and self.must_keep_target(new, interval_ms):
            return group.target_epoch, before
        return self.group_epoch, self._new_target(old, new)

    def _new_target(self, old: ConsumerMember, new: ConsumerMember) -> Partitions:
        group, catalog = self.group, self.groups.catalog
        inputs = group.soft.assignor_inputs
        if len(inputs) < len(group.members):
            for member_id in group.members.keys() - inputs.keys():
                assigned = group.target.get(member_id, NO_PARTITIONS)
                inputs[member_id] = self._assignor_input(group.members[member_id], assigned)
        members = dict(inputs)
        if self.replaced is not None:
            del members[self.replaced.member_id]
        members[new.member_id] = self._assignor_input(new, self.part_before(new.member_id) or NO_PARTITIONS)
        counts: dict[bytes, int] = {}
        for topics in {member.topics for member in members.values()}:
            for topic_id in topics:
                if topic_id not in counts:
                    counts[topic_id] = catalog.partition_count(catalog.topic_name(topic_id) or "") or 0
        self.groups.fence_derived(group, PARTITION_BYTES * sum(counts.values()))
        name = upcoming_assignor(self.groups, group, old, new)
        try:
            spec = GroupSpec(members=members, partitions=counts, free=self._free(members, counts))
            answer = run(name, self.groups.assignors[name], spec)
        except AssignorError as error:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Failed to compute a new target assignment for epoch {self.group_epoch}: {error}",
            ) from error
        group.soft.target_version = catalog.version
        self.write_target(answer, name)
        return answer[new.member_id]

    def _free(
        self, members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]
    ) -> Mapping[bytes, AbstractSet[int]] | None:
        """The partitions that no part of the target contains, so that an assignor need not look for them.

        None if the target may not be an assignor's answer for these topics: it was read from a log, topics have changed,
        or members no longer subscribe to them or did not get all of it. The assignor must then look at everything.
        """
        group = self.group
        owners = group.inverted_target
        if group.soft.target_version != self.groups.catalog.version or not owners.keys() <= counts.keys():
            return None
        if (
            not group.target_partition_count
            == sum(map(len, owners.values()))
            == sum([member.assigned_count for member in members.values()])
        ):
            return None
        free: dict[bytes, AbstractSet[int]] = {}
        for topic_id, count in counts.items():
            taken = owners.get(topic_id, {})
            free[topic_id] = set(range(count)).difference(taken) if len(taken) < count else frozenset()
        return free

    def _assignor_input(self, member: ConsumerMember, assigned: Partitions) -> MemberSpec:
        return MemberSpec(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            topics=topic_ids(self.group, member, self.groups.catalog),
            assigned=assigned,
        )

    # --- the member ---------------------------------------------------------------------------------------------------

    def reconcile(
        self, member: ConsumerMember, target_epoch: int, target: Partitions, owned: Owned, *, subscription_changed: bool
    ) -> ConsumerMember:
        """The member after its next step, which is written if there is one. Raises FENCED_MEMBER_EPOCH."""
        if not subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        group = self.group
        mine = {member.member_id} if self.replaced is None else {member.member_id, self.replaced.member_id}

        def is_free(topic_id: bytes, partition: int) -> bool:
            owner = group.owner(topic_id, partition)
            return owner is None or owner in mine

        if member.state is MemberState.UNKNOWN and (owned is None or any(partitions for _, partitions in owned)):
            raise self.unknown_state()
        topics = topic_ids(group, member, self.groups.catalog)
        stepped = reconcile(
            member,
            target_epoch=target_epoch,
            target=target,
            topics=topics,
            owned=owned,
            is_free=is_free,
            subscription_changed=subscription_changed,
        )
        if stepped is not member:
            self.write_step(member, stepped, target_epoch)
        return stepped
