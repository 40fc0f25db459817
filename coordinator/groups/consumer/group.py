"""A consumer group (KIP-848): the state that its operations work on.

What it shares with streams groups, epochs and a target, is in epochs/group.py. What it distributes are partitions:
heartbeats carry what a member must give up and what it gets. It reaches the target's epoch when it has given up what it must; a
partition is given to it when nobody else holds it any more (reconcile.py). So

    RevocationEpoch < MemberEpoch <= target assignment epoch <= group epoch

`owners` also keeps the holder of each partition, so that "is it free?" is a look-up. A partition that a member must give up
is still its own.

Kafka: `ConsumerGroup`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from coordinator.groups.assignors.assignor import Partitions
from coordinator.groups.catalog import Catalog
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.consumer.soft_state import ConsumerSoftState
from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.epochs.member import PartitionEpochs
from coordinator.groups.fence import NO_FENCE, Fence
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.groups.held_bytes import NAME_BYTES, PARTITION_BYTES
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import ConsumerSettings, GroupSettings
from coordinator.groups.state import Groups
from coordinator.runtime.result import TimerKey

NO_PARTITIONS: Partitions = {}
_NO_OWNERS: Mapping[int, str] = {}


class State(StrEnum):
    """The state of a consumer group, which follows from its epochs."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target is older than the group's epoch."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that matched a pattern when it was last looked at."""

    topics: frozenset[str]
    version: int
    """The version of the topic catalog."""
    timestamp_ms: int


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions, ConsumerSoftState]):
    """One consumer group. Only replay.py calls what is under "replay"."""

    __slots__ = (
        "assignors", "classic_members", "classic_protocols", "has_partition_metadata", "inverted_target", "owners",
        "regex_members", "regexes", "subscribed", "target_partition_count",
    )  # fmt: skip

    kind = Kind.CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str, fence: Fence) -> None:
        super().__init__(group_id, fence, ConsumerSoftState())
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """The log has a record of type 4, which only a Kafka before 4.1 writes; the next group epoch removes it."""

        # Follows from the members and patterns, and is kept up to date as they change.
        self.subscribed: dict[str, int] = {}
        """Topic name -> members that subscribe to it by name + patterns that it matched."""
        self.regex_members: dict[str, int] = {}
        """Pattern -> members that subscribe by it."""
        self.assignors: dict[str, int] = {}
        """Assignor -> members that ask for it."""
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        """Protocol -> classic members that offer it."""
        self.owners: dict[bytes, dict[int, str]] = {}
        """Topic id -> partition -> member id."""
        self.inverted_target: dict[bytes, dict[int, str]] = {}
        """Topic id -> partition -> the member that should have it, as the target says."""
        self.target_partition_count = 0
        """Partitions in all parts of the target. It equals those in `inverted_target` unless two members should have one."""

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        if not self.members:
            return State.EMPTY
        if self.group_epoch > self.target_epoch:
            return State.ASSIGNING
        return State.RECONCILING if self.unreconciled else State.STABLE

    @property
    def durable(self) -> dict[str, Any]:
        return super().durable | {"regexes": self.regexes, "owners": self.owners}

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def find_committer(self, member_id: str, catalog: Catalog) -> ConsumerMember | None:  # noqa: ARG002 - streams groups need it
        return self.members.get(member_id)

    def fencing_policies(self, settings: GroupSettings) -> ConsumerSettings:
        return settings.consumer(self.group_id)

    def fence_in_force(self) -> Fence:
        """The group's fence, unless every member has left its epoch."""
        fence = self.fence
        if fence is NO_FENCE or any(member.member_epoch <= fence.epoch for member in self.members.values()):
            return fence
        return NO_FENCE

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """The member that holds a partition, which it may have to give up."""
        return self.owners.get(topic_id, _NO_OWNERS).get(partition)

    def holder(self, topic: str, topic_id: bytes, partition: int, catalog: Catalog) -> str | None:  # noqa: ARG002 - as Group has it
        return self.owner(topic_id, partition)

    def supports_classic(self, names: Iterable[str]) -> bool:
        """Whether a classic member that offers these protocols can be among the group's classic members."""
        return any(self.classic_protocols.get(name, 0) == self.classic_members for name in names)

    def _new_member(self, member_id: str) -> ConsumerMember:
        return ConsumerMember(member_id=member_id)

    # --- replay -------------------------------------------------------------------------------------------------------

    def set_group_epoch(self, epoch: int, metadata_hash: int, fence: Fence) -> None:
        self.group_epoch = epoch
        self.metadata_hash = metadata_hash
        self.set_fence(fence)
        self.soft.on_epochs_changed()

    def set_partition_metadata(self, *, is_there: bool) -> None:
        self.has_partition_metadata = is_there

    def set_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Sets the topics that a pattern matches; None: it is not resolved (any more)."""
        old = self.regexes.pop(regex, None)
        if old is not None:
            for topic in old.topics:
                _add(self.subscribed, topic, -1)
            self.hold_derived(-NAME_BYTES * len(old.topics))
        if resolved is not None:
            self.regexes[regex] = resolved
            self.hold_derived(NAME_BYTES * len(resolved.topics))
            for topic in resolved.topics:
                _add(self.subscribed, topic, 1)
        self.soft.on_topics_changed()

    def _index(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        self._index_owners(old, new)
        if new is None:
            self._count(old, -1)
        elif old is None or not _differ_in_holdings_only(old, new):
            self._count(old, -1)
            self._count(new, 1)
            self._hold_metadata(old, new)
            self._index_instance_id(old, new)
            if old is None or not _look_alike_to_assignors(old, new):
                self.soft.assignor_inputs.pop(new.member_id, None)

    def _count(self, member: ConsumerMember | None, by: int) -> None:
        if member is None:
            return
        for topic in member.topics:
            _add(self.subscribed, topic, by)
        if member.regex:
            _add(self.regex_members, member.regex, by)
        if member.assignor is not None:
            _add(self.assignors, member.assignor, by)
            self.soft.on_votes_changed()
        if member.classic is not None:
            self.classic_members += by
            for name in {name for name, _ in member.classic.protocols}:
                _add(self.classic_protocols, name, by)

    def _index_target(self, member_id: str, before: Partitions | None, after: Partitions | None) -> None:
        self.soft.assignor_inputs.pop(member_id, None)
        before = NO_PARTITIONS if before is None else before
        after = NO_PARTITIONS if after is None else after
        count_before = self.target_partition_count
        for topic_id, partitions in before.items():
            self.target_partition_count -= len(partitions)
            owners = self.inverted_target.get(topic_id)
            if owners is None:
                continue
            for partition in partitions.difference(after.get(topic_id, ())):
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.inverted_target[topic_id]
        for topic_id, partitions in after.items():
            self.target_partition_count += len(partitions)
            added = partitions.difference(before.get(topic_id, ()))
            if added:
                self.inverted_target.setdefault(topic_id, {}).update(dict.fromkeys(added, member_id))
        self.hold_derived((self.target_partition_count - count_before) * PARTITION_BYTES)

    def _index_owners(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """The last member to take a partition has it: while a log is read, the record that gave it up may be missing."""
        if old is not None:
            for held in (old.assigned, old.pending_revocation):
                if new is None or (held is not new.assigned and held is not new.pending_revocation):
                    self._disown(held, old.member_id)
        if new is not None:
            for held in (new.assigned, new.pending_revocation):
                if old is None or (held is not old.assigned and held is not old.pending_revocation):
                    for topic_id, partitions in held.items():
                        self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, new.member_id))

    def _disown(self, held: PartitionEpochs, member_id: str) -> None:
        for topic_id, partitions in held.items():
            owners = self.owners.get(topic_id)
            if owners is None:
                continue
            for partition in partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.owners[topic_id]


def _differ_in_holdings_only(old: ConsumerMember, new: ConsumerMember) -> bool:
    """Whether nothing that is counted here has changed. Compared by identity: `holding` keeps the objects."""
    return (
        old.topics is new.topics
        and old.regex is new.regex
        and old.assignor is new.assignor
        and old.classic is new.classic
        and old.instance_id is new.instance_id
        and old.rack_id is new.rack_id
        and old.client_id is new.client_id
        and old.client_host is new.client_host
    )


def _look_alike_to_assignors(old: ConsumerMember, new: ConsumerMember) -> bool:
    return (
        old.topics is new.topics
        and old.regex == new.regex
        and old.instance_id == new.instance_id
        and old.rack_id == new.rack_id
    )


def _add(counts: dict[str, int], key: str, by: int) -> None:
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]


def find_consumer_group(groups: Groups, group_id: str) -> ConsumerGroup | None:
    """The consumer group of this id; None if there is no group, or one of another kind."""
    return groups.find(group_id, ConsumerGroup)


def consumer_group_or_new(groups: Groups, group_id: str) -> ConsumerGroup:
    """For replay: the consumer group of this id; created if there is none, in the place of a group of another kind."""
    group = find_consumer_group(groups, group_id)
    if group is None:
        # The record of its epoch has its fence.
        group = ConsumerGroup(group_id, NO_FENCE)
        groups.put(group)
    return group


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that ends a member's session."""
    return ("consumer-session", group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a member that does not give up its partitions in time."""
    return ("consumer-rebalance", group_id, member_id)


def join_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a classic member that was asked to rejoin and does not."""
    return ("consumer-join", group_id, member_id)


def sync_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a classic member that joined and does not ask for its assignment."""
    return ("consumer-sync", group_id, member_id)


def regex_key(group_id: str) -> TimerKey:
    """The timer that matches the group's patterns against the topics."""
    return ("consumer-regex", group_id)
