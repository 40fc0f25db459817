"""One operation on a consumer group while it is decided: what it will write, and what the group will be like then.

An operation may not change the group; its records do, when they are replayed. But its later steps depend on its earlier
ones: the target is computed for the epoch that was just raised, for members of which one has just changed. So an operation
collects its records here and asks here what the group *will* be. The steps, in the order in which Kafka writes their records:

    update      what the member says about itself, and the patterns it was the last to use
    raise_epoch the group's epoch, where what it wants or who is in it has changed
    retarget    the target, if the epoch is ahead of it, but not within the assignment interval of the last one
    reconcile   the member's next step towards the target

Nothing waits for the assignment interval: the first heartbeat after it finds the target behind and computes it (KIP-1263).
One who comes back is not made to wait for it: it would get the epoch in which it left.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from coordinator.groups.assignors.assignor import AssignorError, GroupSpec, MemberSpec, Partitions, run
from coordinator.groups.change import GroupChange
from coordinator.groups.consumer import records
from coordinator.groups.consumer.group import (
    NO_PARTITIONS,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    join_key,
    rebalance_key,
    session_key,
    sync_key,
)
from coordinator.groups.consumer.reconcile import Owned, reconcile
from coordinator.groups.consumer.subscription import check_regex, follow, metadata_hash, refresh_timer, topic_ids
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import JOINING_EPOCH
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.java import hash_map_order
from coordinator.protocol.messages import Message
from coordinator.runtime.result import RequestContext, Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups


class Change(GroupChange):
    """What an operation wants done, and the group as it will be."""

    __slots__ = ("group", "groups", "on_result", "replaced", "replies")

    def __init__(self, groups: "Groups", group: ConsumerGroup, now_ms: int) -> None:
        super().__init__(Kind.CONSUMER, group.group_id, group.group_epoch, group.rebalances, now_ms)
        self.groups = groups
        self.group = group
        self.replaced: ConsumerMember | None = None
        """The holder of the instance id whose place the asking member takes, under another id."""
        self.on_result: Callable[[], None] | None = None
        """What is done to a classic group's round, once nothing can be refused any more."""
        self.replies: list[tuple[RequestContext, Message]] = []

    def result(self, reply: Message | None) -> Result:
        if self.groups.by_id.get(self.group_id) is not self.group:
            self.groups.uncommitted_groups[self.group_id] = self.group
        if self.on_result is not None:
            self.on_result()
        return Result(reply, self.records, self.timers, self.replies, self.facts)

    def disarm_all_of(self, member_id: str) -> None:
        """A member is no more; so are its timers."""
        group_id = self.group_id
        for key in (session_key, rebalance_key, join_key, sync_key):
            self.disarm(key(group_id, member_id))

    # --- the steps ----------------------------------------------------------------------------------------------------

    def advance(self, old: ConsumerMember, new: ConsumerMember, owned: Owned) -> ConsumerMember:
        """All steps for a member that is now `new`; returns it as it is after them. Raises KafkaError."""
        target_epoch, target = self.catch_up(old, new)
        changed = new.topics != old.topics or new.regex != old.regex
        return self.reconcile(new, target_epoch, target, owned, subscription_changed=changed)

    def catch_up(self, old: ConsumerMember, new: ConsumerMember) -> tuple[int, Partitions]:
        """The steps of the group: returns the target's epoch and the member's part of it."""
        group, catalog = self.group, self.groups.catalog
        topics_changed = new.topics != old.topics
        regex_changed = new.regex != old.regex
        is_new_regex = bool(regex_changed and new.regex and new.regex not in group.regex_members)
        if is_new_regex:
            check_regex(new.regex)
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
        elif new.assignor != old.assignor and self._assignor(old, new) != self._assignor(None, None):
            cause = "the preferred assignor changed"
        has_changed = follow(group, catalog)
        if cause or has_changed:
            self._raise_epoch(old, new, cause, is_known=not has_changed, regex_dropped=regex_dropped)
        elif regex_dropped:
            group.catalog_version = None
        timer = refresh_timer(self.groups, group, self.now_ms, is_new=is_new_regex)
        if timer is not None:
            self.timers.append(timer)
        return self._retarget(old, new)

    def _raise_epoch(
        self, old: ConsumerMember, new: ConsumerMember, cause: str, *, is_known: bool, regex_dropped: bool
    ) -> None:
        group = self.group
        removed, added = self._topics_changed(old, new, regex_dropped=regex_dropped)
        new_hash = metadata_hash(group, removed, added, self.groups.catalog, is_known=is_known)
        group.catalog_version = self.groups.catalog.version
        if not cause and new_hash != group.metadata_hash:
            cause = "a subscribed topic changed"
        if cause:
            self.raise_epoch(new_hash, cause, new.member_id)
        if group.has_partition_metadata:
            self.records.append(records.partition_metadata_tombstone(self.group_id))

    def raise_epoch(self, new_hash: int, cause: str, member_id: str) -> None:
        """Writes the next group epoch; the cause is remembered and told."""
        self.group_epoch += 1
        self.records.append(records.group_epoch(self.group_id, self.group_epoch, new_hash))
        self.begin_rebalance(cause, member_id)

    def _topics_changed(
        self, old: ConsumerMember, new: ConsumerMember, *, regex_dropped: bool
    ) -> tuple[set[str], set[str]]:
        """Names that the group will not subscribe to any more, and those that it newly will."""
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

    def _assignor(self, old: ConsumerMember | None, new: ConsumerMember | None) -> str:
        """The assignor that most members ask for, once `new` has taken the place of `old`."""
        counts = self.group.assignors
        if (old is not None and old.assignor is not None) or (new is not None and new.assignor is not None):
            counts = dict(counts)
            if old is not None and old.assignor in counts:
                counts[old.assignor] -= 1
            if new is not None and new.assignor is not None:
                counts[new.assignor] = counts.get(new.assignor, 0) + 1
            counts = {name: count for name, count in counts.items() if count}
        known = [name for name in counts if name in self.groups.assignors]
        if not known:
            return next(iter(self.groups.assignors))
        # max keeps the first of equals.
        return max(hash_map_order(known) if len(known) > 1 else known, key=counts.__getitem__)

    def _retarget(self, old: ConsumerMember, new: ConsumerMember) -> tuple[int, Partitions]:
        """The target's epoch and the member's part of it: of a new target, if one is due."""
        group = self.group
        before = group.target.get(new.member_id if self.replaced is None else self.replaced.member_id, NO_PARTITIONS)
        if group.target_epoch >= self.group_epoch:
            return group.target_epoch, before
        interval_ms = self.groups.settings.consumer(self.group_id).assignment_interval_ms
        if new.member_id in group.departed and new.member_epoch == JOINING_EPOCH:
            interval_ms = 0
        if group.target_stands(interval_ms, self.now_ms):
            return group.target_epoch, before
        return self.group_epoch, self._new_target(old, new)

    def _new_target(self, old: ConsumerMember, new: ConsumerMember) -> Partitions:
        group, catalog = self.group, self.groups.catalog
        if len(group.specs) < len(group.members):
            for member_id in group.members.keys() - group.specs.keys():
                spec = self._spec(group.members[member_id], group.target.get(member_id, NO_PARTITIONS))
                group.specs[member_id] = spec
        specs = dict(group.specs)
        if self.replaced is not None:
            del specs[self.replaced.member_id]
            assigned = group.target.get(self.replaced.member_id, NO_PARTITIONS)
        else:
            assigned = group.target.get(new.member_id, NO_PARTITIONS)
        specs[new.member_id] = self._spec(new, assigned)
        counts: dict[bytes, int] = {}
        for topics in {spec.topics for spec in specs.values()}:
            for topic_id in topics:
                if topic_id not in counts:
                    counts[topic_id] = catalog.partition_count(catalog.topic_name(topic_id) or "") or 0
        name = self._assignor(old, new)
        try:
            asked = GroupSpec(members=specs, partitions=counts, free=self._free(specs, counts))
            answer = run(name, self.groups.assignors[name], asked)
        except AssignorError as error:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Failed to compute a new target assignment for epoch {self.group_epoch}: {error}",
            ) from error
        group.target_version = catalog.version
        target = group.target
        moved = 0
        for member_id, partitions in answer.items():
            before = target.get(member_id)
            if before is not partitions and before != partitions:
                self.records.append(records.target_of_member(self.group_id, member_id, partitions))
                moved += 1
        self.records.append(records.target_epoch(self.group_id, self.group_epoch, self.now_ms))
        self.target_made(name, len(specs), moved)
        return answer[new.member_id]

    def _free(
        self, specs: Mapping[str, MemberSpec], counts: Mapping[bytes, int]
    ) -> Mapping[bytes, AbstractSet[int]] | None:
        """The partitions that are in no part of the target, for an assignor that need not look for them then.

        None if the target may not be what an assignor made of these topics: it was read from a log, topics have changed,
        the members do not subscribe to them any more, or have not got all of it. Then everything must be looked at.
        """
        group = self.group
        if group.target_version != self.groups.catalog.version or not group.meant.keys() <= counts.keys():
            return None
        if (
            not group.meant_count
            == sum(map(len, group.meant.values()))
            == sum([spec.assigned_count for spec in specs.values()])
        ):
            return None
        free: dict[bytes, AbstractSet[int]] = {}
        for topic_id, count in counts.items():
            meant = group.meant.get(topic_id, {})
            free[topic_id] = set(range(count)).difference(meant) if len(meant) < count else frozenset()
        return free

    def _spec(self, member: ConsumerMember, assigned: Partitions) -> MemberSpec:
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
        """The member's next step; written and its rebalance timer set if it is one."""
        if not subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        group = self.group
        mine = {member.member_id} if self.replaced is None else {member.member_id, self.replaced.member_id}

        def is_free(topic_id: bytes, partition: int) -> bool:
            owner = group.owner(topic_id, partition)
            return owner is None or owner in mine

        if member.state is MemberState.UNKNOWN and (owned is None or any(partitions for _, partitions in owned)):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
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
        if stepped is member:
            return member
        self.records.append(records.current_assignment(self.group_id, stepped))
        self._tell_step(stepped, target_epoch)
        if stepped.classic is None:
            key = rebalance_key(self.group_id, stepped.member_id)
            if stepped.state is MemberState.UNREVOKED_PARTITIONS:
                self.arm(key, max(stepped.rebalance_timeout_ms, 0))
            elif member.state is MemberState.UNREVOKED_PARTITIONS:
                self.disarm(key)
        return stepped

    def _tell_step(self, after: ConsumerMember, target_epoch: int) -> None:
        """Keeps who the others waited for: when the last member reaches the target, the rebalance is over."""
        group = self.group
        if not after.is_reconciled_to(target_epoch) or target_epoch < self.group_epoch:
            return
        self.reached(after.member_id)
        left: AbstractSet[str] = group.unreconciled if target_epoch == group.target_epoch else group.members.keys()
        done = {after.member_id} if self.replaced is None else {after.member_id, self.replaced.member_id}
        if len(left) > sum(member_id in left for member_id in done):
            return
        self.end_rebalances(target_epoch, after.member_id, len(group.members.keys() | {after.member_id}))
