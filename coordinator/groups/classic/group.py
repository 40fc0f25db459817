"""A classic group: the state that its operations work on.

A classic group (Kafka's first group protocol, still what most clients speak) agrees on a *generation*: a numbered list of
members, one of them the leader. Everybody joins; when all have, or time is up, the generation is formed and the leader is
told who is in it and what each said about itself (`metadata`, opaque to us). The leader hands back one `assignment` per
member (opaque too), the generation is written to the log, and the members get their assignments.

So a group has two halves, and they must not be mixed up:

    stored      what the log says: the last generation that got its assignment, or that became empty. It is the record
                itself. Only `replay.py` sets it, live and at load by the same line. It survives a crash.
    the round   everything else here: who is joining, whose call waits for an answer, who has only been given an id, which
                protocols a member offers besides the chosen one, the generation that is being formed. Operations change it
                in place. It is never written, and a crash loses it, as in Kafka: the group comes back in its stored
                generation, and members of a lost one are told so by the next thing they ask.

The round starts from the stored half when a shard has been loaded (`resume`). While it lives it runs ahead of the stored
half, never behind it; whatever a reply says is parked until the log has caught up.

This object is data with bookkeeping and takes no decisions: each operation has a file of its own beside this one. The
bookkeeping is there so that no operation walks the members to learn something: joins, syncs and supported protocols are
counted as they come and go. Ten thousand members may join one group, and each join must cost the same.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from coordinator.groups.classic.owned_partitions import Claims, Reading
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE, REBALANCES_KEPT, ExpiryBase, Group, commit_timestamp_ms
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import GroupMetadataValue, HeartbeatResponse
from coordinator.runtime.result import RequestContext, Result, Timer, TimerKey

_NO_TIME = -1
_KIND = Kind.CLASSIC
_STILL_THERE = HeartbeatResponse(error_code=ErrorCode.NONE)
_REJOIN = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


class State(StrEnum):
    """The five states of a classic group. Each says what it answers and what ends it."""

    EMPTY = "Empty"
    """No members; kept for its offsets, or for members that have only their id. Joins are taken; heartbeat, sync and leave
    know nobody; simple commits (no member, no generation) are taken. Ends when a member joins, or when the group is deleted."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are called together. Joins are parked; heartbeat and sync say REBALANCE_IN_PROGRESS; commits of the previous
    generation are taken, for members give up partitions now. Ends when all have joined or the rebalance timeout is over:
    those who joined form the next generation, and if nobody did, the group is Empty."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is formed and its leader thinks. Syncs are parked; heartbeats are answered; commits say
    REBALANCE_IN_PROGRESS, since nobody knows yet what it owns. Ends with the leader's sync, or back to Preparing when a
    member comes, goes, changes its metadata or fails to sync in time."""

    STABLE = "Stable"
    """Everybody can have its assignment. Heartbeats, syncs and commits of this generation are answered at once; a follower
    that joins with what it said before is given the current generation. Ends, in Preparing, when a member comes, goes or
    changes its metadata, or when the leader joins."""

    DEAD = "Dead"
    """Not there. No group object is ever in this state: it is what a description says of a group nobody knows."""


SUCCESSORS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset(),
}
"""The states that may follow each state."""

Protocols = tuple[tuple[str, bytes], ...]
"""What a member offers: (protocol name, metadata) in its order of preference. No name occurs twice."""


class Cause(NamedTuple):
    """Why a group rebalances: what happened, to which member, and what its client gave as the reason (KIP-800)."""

    what: str
    member_id: str
    client_reason: str | None


@dataclass(slots=True)
class Rebalance:
    """One rebalance, from its cause to the assignment. Times are wall clock, None until reached."""

    cause: Cause
    from_state: State
    from_generation: int
    started_ms: int
    formed_ms: int | None = None
    """All members known, the leader is asked."""
    ended_ms: int | None = None
    """The assignment is there, or the group turned out empty, or another rebalance took over."""
    last_joined: str = ""
    """The member that the others waited for: the one to join last."""
    given_up: tuple[str, ...] = ()
    """Members that did not come in time."""
    completed: bool = False
    """It ended with an assignment, or with a group without members."""
    waits: dict[str, int] = field(default_factory=dict)
    """Member id -> how long it was waited for: from the start until it joined, or was given up; the leader's thinking too."""


@dataclass(slots=True)
class InitialDelay:
    """The first rebalance of an empty group waits for more members; each that comes extends the wait, up to a limit."""

    current_ms: int
    """Length of the wait now running."""
    left_ms: int
    """How much longer it may be extended in all."""
    member_came: bool = False


class ClassicMember:
    """A member in the round. `assignment` is what it holds or may fetch; empty in a generation not assigned yet."""

    __slots__ = (
        "assignment", "awaiting_join", "awaiting_sync", "client_host", "client_id", "client_reason", "group_instance_id",
        "is_new", "member_id", "must_rejoin", "protocols", "reading", "rebalance_timeout_ms", "session_timer",
        "still_there",
    )  # fmt: skip

    def __init__(
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        protocols: Protocols,
        assignment: bytes,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.client_reason: str | None = None
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """Its first join is still parked: it cannot send heartbeats, and is given up although it waits."""
        self.awaiting_join: RequestContext | None = None
        self.awaiting_sync: RequestContext | None = None
        self.reading: Reading | None = None
        """The metadata last read, for it seldom changes from one generation to the next."""
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self._set_session(Timer(session_key(group_id, member_id), session_timeout_ms))

    def set_timeouts(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self.rebalance_timeout_ms = rebalance_timeout_ms
        if session_timeout_ms != self.session_timer.delay_ms:
            self._set_session(Timer(self.session_timer.key, session_timeout_ms))

    def _set_session(self, timer: Timer) -> None:
        self.session_timer = timer
        # A heartbeat makes no object: both its answers are here.
        self.still_there = Result(_STILL_THERE, timers=(timer,))
        self.must_rejoin = Result(_REJOIN, timers=(timer,))

    @property
    def session_timeout_ms(self) -> int:
        delay_ms = self.session_timer.delay_ms
        assert delay_ms is not None
        return delay_ms

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    def metadata(self, protocol_name: str | None) -> bytes | None:
        """What the member said about itself under this protocol; None if it does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return None


class ClassicGroup(Group):
    """One classic group, or a simple one: offsets of consumers that use no groups (`protocol_type` None, Empty)."""

    __slots__ = (
        "awaiting_joins", "claims", "claims_contested", "claims_stale", "generation", "group_id", "initial_delay",
        "join_timer_key", "leader_id", "members", "pending_joins", "pending_syncs", "protocol_name", "protocol_type",
        "rebalances", "state", "state_timestamp_ms", "static_members", "stored", "subscribed_topics", "support",
    )  # fmt: skip

    kind = _KIND
    state: State
    protocol_type: str | None

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        self.group_id = group_id
        self.stored: GroupMetadataValue | None = None
        """What the log says, or None when it has no group record. Everything below is the round."""
        self.state = State.EMPTY
        self.state_timestamp_ms: int | None = now_ms
        """Wall clock of the last change of state; None where a record of an old Kafka does not say."""
        self.generation = 0
        self.protocol_type = None
        self.protocol_name: str | None = None
        """Chosen for the current generation."""
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id of its holder."""
        self.pending_joins: set[str] = set()
        """Ids handed out with MEMBER_ID_REQUIRED whose holder has not joined."""
        self.pending_syncs: dict[str, None] = {}
        """Members of the current generation that have not asked for their assignment."""
        self.awaiting_joins = 0
        """Members whose join is parked."""
        self.support: dict[str, int] = {}
        """Protocol name -> members that offer it."""
        self.initial_delay: InitialDelay | None = None
        """There while an Empty group is preparing its first generation."""
        self.subscribed_topics: frozenset[str] | None = None
        """Topics that the current generation subscribes to, or None when the coordinator cannot tell."""
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)
        self.claims: Claims | None = None
        """What the members of the current generation say they own, where some of it is wrong (KIP-792)."""
        self.claims_stale = 0
        """Partitions claimed from an older generation, over the life of this round."""
        self.claims_contested = 0
        """Partitions claimed by more than one member, over the life of this round."""
        self.join_timer_key: TimerKey = ("classic-join", group_id)

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether member metadata are subscriptions that the coordinator can read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def epoch(self) -> int:
        return self.generation

    @property
    def durable(self) -> GroupMetadataValue | None:
        return self.stored

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        return self.stored is None and self.state is State.EMPTY

    @property
    def is_forgettable(self) -> bool:
        return self.is_simple and not self.pending_joins

    @property
    def protects_all_offsets(self) -> bool:
        """Only subscriptions of protocol type "consumer" can be read."""
        return self.state is not State.EMPTY and not self.uses_consumer_protocol

    def expiry_base(self) -> ExpiryBase | None:
        """See offsets/expire.py: an Empty group's offsets count from the moment that it became Empty."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is State.EMPTY:
            since_ms = self.state_timestamp_ms
            return commit_timestamp_ms if since_ms is None else lambda _: since_ms
        if self.state is State.STABLE and self.uses_consumer_protocol and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading this topic; true of every topic when subscriptions cannot be read."""
        topics = self.subscribed_topics
        return self.uses_consumer_protocol if topics is None else topic in topics

    @property
    def has_everybody_joined(self) -> bool:
        return self.awaiting_joins == len(self.members) and not self.pending_joins

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        """Whether somebody who offers these protocols can be in one generation with the members."""
        if self.state is State.EMPTY:
            return bool(protocol_type and names)
        members = len(self.members)
        if self.protocol_type != protocol_type:
            return False
        support = self.support
        for name in names:  # noqa: SIM110 - for one name, or two, a generator costs more than what it runs
            if support.get(name, 0) == members:
                return True
        return False

    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' (0 without members). Walks the members: once per rebalance, not per join."""
        return max(0, max((member.rebalance_timeout_ms for member in self.members.values()), default=0))

    # --- members ------------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Takes in a member that `supports` let pass. The first one decides the protocol type and leads."""
        assert member.member_id not in self.members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.awaiting_joins += member.awaiting_join is not None
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Forgets a member, or an id that was only handed out; nothing if it is neither. Parked calls must be answered."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            assert member.awaiting_join is None
            assert member.awaiting_sync is None
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.pop(member_id, None)
        return member

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)

    def park_join(self, member: ClassicMember, context: RequestContext, now_ms: int) -> RequestContext | None:
        """Makes the member's join wait; returns the call that waited before, which must be answered."""
        earlier = member.awaiting_join
        self.awaiting_joins += earlier is None
        member.awaiting_join = context
        if self.rebalances and self.state is State.PREPARING_REBALANCE:
            rebalance = self.rebalances[-1]
            rebalance.last_joined = member.member_id
            rebalance.waits.setdefault(member.member_id, now_ms - rebalance.started_ms)
        return earlier

    def unpark_join(self, member: ClassicMember) -> RequestContext | None:
        """The call of a parked join, to be answered now."""
        context = member.awaiting_join
        if context is not None:
            self.awaiting_joins -= 1
            member.awaiting_join = None
        return context

    def unpark_sync(self, member: ClassicMember) -> RequestContext | None:
        context = member.awaiting_sync
        member.awaiting_sync = None
        return context

    def _count_protocols(self, member: ClassicMember, by: int) -> None:
        support = self.support
        for name, _ in member.protocols:
            count = support.get(name, 0) + by
            if count:
                support[name] = count
            else:
                del support[name]

    # --- states -------------------------------------------------------------------------------------------------------

    def enter(self, state: State, now_ms: int) -> None:
        assert state in SUCCESSORS[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    def resume(self, stored: GroupMetadataValue) -> None:
        """Starts the round from the stored half, when a shard has been loaded."""
        assert not self.members
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol
        timestamp_ms = stored.current_state_timestamp
        self.state_timestamp_ms = None if timestamp_ms == _NO_TIME else timestamp_ms
        for each in stored.members:
            rebalance_timeout_ms = (
                each.rebalance_timeout if each.rebalance_timeout != _NO_TIME else each.session_timeout
            )
            # Of the protocols a member offers, the log holds the chosen one.
            member = ClassicMember(
                self.group_id, each.member_id, each.group_instance_id, each.client_id, each.client_host,
                ((stored.protocol or "", each.subscription),), each.assignment,
                each.session_timeout, rebalance_timeout_ms,
            )  # fmt: skip
            self.add(member, stored.protocol_type)
        self.state = State.STABLE if self.members else State.EMPTY
        if stored.leader in self.members:
            self.leader_id = stored.leader


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that ends a member's session."""
    return ("classic-session", group_id, member_id)


def pending_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that forgets an id nobody came back with."""
    return ("classic-pending", group_id, member_id)


def pending_disarmed(group: ClassicGroup) -> list[Timer]:
    """For a group that is deleted while somebody has only been given an id."""
    return [Timer(pending_key(group.group_id, member_id), None) for member_id in group.pending_joins]


def sync_key(group: ClassicGroup) -> TimerKey:
    """The timer that gives up members of the current generation that do not ask for their assignment."""
    return ("classic-sync", group.group_id, group.generation)


def find_classic_group(groups: Groups, group_id: str) -> ClassicGroup | None:
    """The classic group of this id; None if there is no group, or one of another kind."""
    group = groups.by_id.get(group_id)
    if group is None or group.kind is not _KIND:
        return None
    return group  # type: ignore[return-value]  # the kind says the class


def classic_group_or_new(groups: Groups, group_id: str) -> ClassicGroup:
    """For replay: the classic group of this id; created if there is none, in the place of a group of another kind."""
    group = find_classic_group(groups, group_id)
    if group is None:
        group = ClassicGroup(group_id, None)
        groups.put(group)
    return group
