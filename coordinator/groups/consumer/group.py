"""A consumer group (KIP-848): the state that its operations work on.

What it shares with streams groups, epochs and a target, is in groups/modern.py. What it shares out are partitions: a member is
told by heartbeats what to give up and what it gets. It reaches the target's epoch when it has given up what it must; a
partition is given to it when nobody else holds it any more (reconcile.py). So

    RevocationEpoch < MemberEpoch <= target assignment epoch <= group epoch

All of these are in the log. Members are immutable values fully backed by two records; `replay.py` is the only code that puts
another in their place, live and at load. What is not in the log is at the end of this class: what is cached, and the memory of
why the group rebalanced. An operation may change that directly; a crash loses it and nothing depends on it.

Who holds a partition is kept by partition as well (`owners`), so that "is it free?" is a look-up. A partition that a member
must give up is still its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from coordinator.groups.assignors.assignor import MemberSpec, Partitions
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import JOINING_EPOCH, Epochs, ModernGroup
from coordinator.groups.settings import ConsumerSettings
from coordinator.groups.state import Groups
from coordinator.runtime.result import Result, TimerKey

_KIND = Kind.CONSUMER

NO_REVOCATION_EPOCH = -1
"""The log does not know: the record was written by a Kafka that has no such field."""

NOTHING: Epochs = {}
NO_PARTITIONS: Partitions = {}


class MemberState(IntEnum):
    """How far a member is on its way to the target; Kafka's numbers, as in its records."""

    STABLE = 0
    """It holds its part of the target of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions before it may go on, and still has the epoch in which it had them."""
    UNRELEASED_PARTITIONS = 2
    """It has reached the target's epoch; some of its partitions are still held by others."""
    UNKNOWN = 127
    """Written by a newer Kafka."""


class State(StrEnum):
    """What a consumer group is doing; follows from its epochs."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target is older than the group."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicPart:
    """What is known of a member that speaks the classic protocol to a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """As it listed them; the first is the one it is told was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member: first what it said about itself (record type 5), then what it holds (type 8)."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """Names it subscribes to."""
    regex: str = ""
    """A pattern it subscribes to as well; "" for none."""
    assignor: str | None = None
    classic: ClassicPart | None = None
    """There for a member that speaks the classic protocol."""

    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Epochs = field(default_factory=lambda: NOTHING)
    pending_revocation: Epochs = field(default_factory=lambda: NOTHING)
    """It has been told to give these up and has not said that it did."""
    revocation_epoch: int = 0
    """The last member epoch in which it had a partition that it has not any more (KAFKA-19779)."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def holding(
        self,
        *,
        member_epoch: int,
        previous_member_epoch: int,
        state: MemberState,
        assigned: Epochs,
        pending_revocation: Epochs,
        revocation_epoch: int,
    ) -> "ConsumerMember":
        """The same member with other holdings. `dataclasses.replace` takes thrice as long, and every step of every member
        is such a change."""
        return ConsumerMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            client_id=self.client_id,
            client_host=self.client_host,
            topics=self.topics,
            regex=self.regex,
            assignor=self.assignor,
            classic=self.classic,
            member_epoch=member_epoch,
            previous_member_epoch=previous_member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
            revocation_epoch=revocation_epoch,
        )

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Since when it has the partition, also if it must give it up; None if it has it not."""
        epoch = self.assigned.get(topic_id, _NO_EPOCHS).get(partition)
        return self.pending_revocation.get(topic_id, _NO_EPOCHS).get(partition) if epoch is None else epoch


_NO_EPOCHS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that matched a pattern when it was last looked at."""

    topics: frozenset[str]
    version: int
    """Of the catalog of topics."""
    timestamp_ms: int


class Steady:
    """The answer to a member that has nothing to say and nothing to hear, made once (heartbeat.py)."""

    __slots__ = ("client_host", "client_id", "instance_id", "is_final", "member_epoch", "result", "settings")

    def __init__(self, member: ConsumerMember, settings: ConsumerSettings, result: Result, *, is_final: bool) -> None:
        self.member_epoch = member.member_epoch
        self.instance_id = member.instance_id
        self.client_id = member.client_id
        self.client_host = member.client_host
        self.settings = settings
        self.result = result
        self.is_final = is_final
        """The target is for the group's epoch; otherwise the answer is good as long as the target stands."""


class ConsumerGroup(ModernGroup[ConsumerMember, Partitions]):
    """One consumer group. Only replay.py calls what is under "replay"."""

    kind = _KIND
    protocol_type = CONSUMER_PROTOCOL_TYPE

    __slots__ = (
        "assignors",
        "called",
        "catalog_version",
        "classic_members",
        "classic_protocols",
        "epoch_reached",
        "has_partition_metadata",
        "meant",
        "meant_count",
        "owners",
        "regex_members",
        "regexes",
        "regexes_looked_at_ms",
        "regexes_version",
        "specs",
        "steady",
        "subscribed",
        "target_version",
        "topic_ids",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """The log has a record of type 4, which only a Kafka before 4.1 writes; it is taken back when there is a chance."""

        # Follows from the members and patterns, kept as they change.
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
        self.meant: dict[bytes, dict[int, str]] = {}
        """Topic id -> partition -> the member in whose part of the target it is: `target` turned round."""
        self.meant_count = 0
        """Partitions in all parts of the target. As many as in `meant`, if no partition is meant for two members."""
        self.epoch_reached = 0
        """No member has been further than this epoch."""

        # Not in the log.
        self.called: set[str] = set()
        """Classic members that were told to join again and have not yet."""
        self.steady: dict[str, Steady] = {}
        """By member id. One that is here has reached the target."""
        self.catalog_version: int | None = None
        """The catalog for which `metadata_hash` is known to be right."""
        self.topic_ids: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
        """Subscription -> ids of its topics, for that catalog."""
        self.specs: dict[str, MemberSpec] = {}
        """Members as the assignor sees them, for that catalog; those that have not changed since they were made."""
        self.target_version: int | None = None
        """The catalog for which the target was computed; None: not since the log was read."""
        self.regexes_version: int | None = None
        """The catalog that the patterns were last matched against."""
        self.regexes_looked_at_ms = 0

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
        """What the log must be able to bring back."""
        return {
            "group_epoch": self.group_epoch,
            "metadata_hash": self.metadata_hash,
            "target_epoch": self.target_epoch,
            "target_timestamp_ms": self.target_timestamp_ms,
            "target": self.target,
            "members": self.members,
            "regexes": self.regexes,
            "owners": self.owners,
        }

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """The member that holds a partition, also if it must give it up."""
        return self.owners.get(topic_id, _NO_OWNERS).get(partition)

    def supports_classic(self, names: Iterable[str]) -> bool:
        """Whether a classic member that offers these protocols can be among the group's classic members."""
        return any(self.classic_protocols.get(name, 0) == self.classic_members for name in names)

    # --- replay -------------------------------------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """Puts a member in, or another value in the place of one."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None and member.member_epoch < 0 <= old.member_epoch:
            self._depart(old)
        self._own(old, member)
        self.epoch_reached = max(self.epoch_reached, member.member_epoch)
        self.steady.pop(member.member_id, None)
        if old is None or not _says_the_same(old, member):
            self._count(old, -1)
            self._count(member, 1)
            if old is not None and old.instance_id is not None and old.instance_id != member.instance_id:
                self._release(old)
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member.member_id
            if old is None or not _looks_the_same(old, member):
                self.specs.pop(member.member_id, None)
        self._walked(member)

    def drop(self, member_id: str) -> None:
        """Takes a member out; nothing if it is not in."""
        old = self.members.pop(member_id, None)
        if old is None:
            return
        self._gone(old)
        self._count(old, -1)
        self._own(old, None)
        self.called.discard(member_id)
        self.specs.pop(member_id, None)
        self.steady.pop(member_id, None)

    def set_group_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.group_epoch = epoch
        self.metadata_hash = metadata_hash
        self.steady.clear()

    def set_target_epoch(self, epoch: int, timestamp_ms: int) -> None:
        self._retarget(epoch, timestamp_ms)
        self.steady.clear()
        if epoch > self.epoch_reached:
            self.unreconciled = set(self.members)
        else:
            self._look_who_is_there()

    def set_target(self, member_id: str, partitions: Partitions | None) -> None:
        """What a member should hold, or None: nothing is meant for it."""
        self.specs.pop(member_id, None)
        before = self.target.pop(member_id, NO_PARTITIONS)
        if partitions is not None:
            self.target[member_id] = partitions
        self._mean(member_id, before, NO_PARTITIONS if partitions is None else partitions)

    def forget_topics(self) -> None:
        """Topics have changed, or what patterns match: what was derived from them is made anew."""
        self.topic_ids.clear()
        self.specs.clear()

    def set_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """What a pattern matches, or None: it is not resolved (any more)."""
        old = self.regexes.pop(regex, None)
        if old is not None:
            for topic in old.topics:
                _add(self.subscribed, topic, -1)
        if resolved is not None:
            self.regexes[regex] = resolved
            for topic in resolved.topics:
                _add(self.subscribed, topic, 1)
        self.forget_topics()

    def _count(self, member: ConsumerMember | None, by: int) -> None:
        if member is None:
            return
        for topic in member.topics:
            _add(self.subscribed, topic, by)
        if member.regex:
            _add(self.regex_members, member.regex, by)
        if member.assignor is not None:
            _add(self.assignors, member.assignor, by)
        if member.classic is not None:
            self.classic_members += by
            for name in {name for name, _ in member.classic.protocols}:
                _add(self.classic_protocols, name, by)

    def _release(self, member: ConsumerMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _mean(self, member_id: str, before: Partitions, after: Partitions) -> None:
        """Keeps `meant`, as `_own` keeps `owners`."""
        for topic_id, partitions in before.items():
            self.meant_count -= len(partitions)
            meant = self.meant.get(topic_id)
            if meant is None:
                continue
            for partition in partitions.difference(after.get(topic_id, ())):
                if meant.get(partition) == member_id:
                    del meant[partition]
            if not meant:
                del self.meant[topic_id]
        for topic_id, partitions in after.items():
            self.meant_count += len(partitions)
            newly = partitions.difference(before.get(topic_id, ()))
            if newly:
                self.meant.setdefault(topic_id, {}).update(dict.fromkeys(newly, member_id))

    def _own(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Whoever took a partition last has it: while a log is read, the record by which it was given up may be gone."""
        if old is not None:
            for held in (old.assigned, old.pending_revocation):
                if new is None or (held is not new.assigned and held is not new.pending_revocation):
                    self._disown(held, old.member_id)
        if new is not None:
            for held in (new.assigned, new.pending_revocation):
                if old is None or (held is not old.assigned and held is not old.pending_revocation):
                    for topic_id, partitions in held.items():
                        self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, new.member_id))

    def _disown(self, held: Epochs, member_id: str) -> None:
        for topic_id, partitions in held.items():
            owners = self.owners.get(topic_id)
            if owners is None:
                continue
            for partition in partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.owners[topic_id]


_NO_OWNERS: Mapping[int, str] = {}


def _says_the_same(old: ConsumerMember, new: ConsumerMember) -> bool:
    """Whether nothing but its holdings changed, of what is counted here. By identity: `holding` keeps the objects."""
    return (
        old.topics is new.topics
        and old.regex is new.regex
        and old.assignor is new.assignor
        and old.classic is new.classic
        and old.instance_id is new.instance_id
        and old.rack_id is new.rack_id
    )


def _looks_the_same(old: ConsumerMember, new: ConsumerMember) -> bool:
    """Whether an assignor sees no difference."""
    return (
        old.topics is new.topics
        and old.regex == new.regex
        and old.instance_id == new.instance_id
        and old.rack_id == new.rack_id
    )


def _add(counts: dict[Any, int], key: Any, by: int) -> None:
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that ends a member's session."""
    return ("consumer-session", group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that gives up a member that does not give up its partitions."""
    return ("consumer-rebalance", group_id, member_id)


def join_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that gives up a classic member that was told to join again and does not."""
    return ("consumer-join", group_id, member_id)


def sync_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that gives up a classic member that joined and does not ask for its assignment."""
    return ("consumer-sync", group_id, member_id)


def regex_key(group_id: str) -> TimerKey:
    """The timer that matches the group's patterns against the topics."""
    return ("consumer-regex", group_id)


def find_consumer_group(groups: Groups, group_id: str) -> ConsumerGroup | None:
    """The consumer group of this id; None if there is no group, or one of another kind."""
    group = groups.by_id.get(group_id)
    if group is None or group.kind is not _KIND:
        return None
    return group  # type: ignore[return-value]  # the kind says the class


def consumer_group_or_new(groups: Groups, group_id: str) -> ConsumerGroup:
    """For replay: the consumer group of this id; created if there is none, in the place of a group of another kind."""
    group = find_consumer_group(groups, group_id)
    if group is None:
        group = ConsumerGroup(group_id)
        groups.put(group)
    return group
