"""The soft state of a classic group: the round in progress.

A round is everything about a classic group that the log does not hold: which members are joining, whose requests are parked,
which ids were handed out, and which protocols a member offers besides the chosen one. Operations change it in place. It is
never written, and a crash loses it. No generation is lost with it: the group comes back in the last generation that any member
may know, Stable or in CompletingRebalance.

The round starts from the stored half of the group when a shard has been loaded (`ClassicGroup.resume`). Afterwards it runs
ahead of the stored half and never behind it; replies are parked until the log has caught up.

This object keeps books and takes no decisions: each operation has its own file beside this one. Joins, syncs and supported
protocols are counted as they come and go, so that no operation iterates over the members to learn something. Ten
thousand members may join one group, and each join must cost the same.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.groups.catalog import Catalog
from coordinator.groups.classic.assignment_rules import InvalidAssignment
from coordinator.groups.classic.leader_extensions import AssignmentFailure, Resync
from coordinator.groups.classic.member import ClassicMember, Protocols, protocols_bytes
from coordinator.groups.classic.owned_partitions import Claims, Reading
from coordinator.groups.classic.states import SUCCESSORS, State
from coordinator.groups.committer import Committer, classic_committer
from coordinator.groups.fence import Fence
from coordinator.groups.group import (
    CONSUMER_PROTOCOL_TYPE,
    REBALANCES_KEPT,
    ExpiryBase,
    Group,
    PastRebalance,
    commit_timestamp_ms,
)
from coordinator.groups.held_bytes import SMALL_BYTES, member_bytes, text_bytes
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import GroupSettings
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.subscription import parse_assignment
from coordinator.protocol.wire import DecodeError
from coordinator.runtime.result import RequestContext, Timer, TimerKey

_COMPLETING_REBALANCE = State.COMPLETING_REBALANCE  # Looking a name up in an enum costs more than the comparison.


class Cause(NamedTuple):
    """Why a group rebalances: what happened, to which member, and the reason that a client (KIP-800) or administrator gave."""

    what: str
    member_id: str
    reason: str | None


@dataclass(slots=True)
class Rebalance:
    """One rebalance, from its cause to the assignment. Times are wall clock (ms), None until reached."""

    cause: Cause
    from_state: State
    from_generation: int
    started_ms: int
    formed_ms: int | None = None
    """All members are known and the leader was asked for the assignment."""
    ended_ms: int | None = None
    """The assignment arrived, the group became Empty, or another rebalance took over."""
    delay_ms: int = 0
    """How long the initial delay of an Empty group kept it from forming the generation."""
    leader_id: str = ""
    """The member that was asked for the assignment."""
    given_up: tuple[str, ...] = ()
    """Members that did not join in time."""
    failure: AssignmentFailure | None = None
    """The leader said that it cannot assign."""
    completed: bool = False
    """Whether it ended with an assignment or with a group without members."""
    waits: dict[str, int] = field(default_factory=dict)
    """Member id -> how long the group waited for it (ms): from the start until it joined, left or was removed; 0 during the
    initial delay. The time that the leader takes for the assignment, or until it is removed, is added to the leader's."""

    def form(self, leader_id: str, given_up: tuple[str, ...], now_ms: int) -> None:
        """The generation is formed; from now on the group waits for the leader."""
        self.formed_ms = now_ms
        self.leader_id = leader_id
        self.given_up = given_up

    def end(self, now_ms: int) -> None:
        """The group no longer waits."""
        self.ended_ms = now_ms
        if self.formed_ms is not None:
            self.waits[self.leader_id] = self.waits.get(self.leader_id, 0) + now_ms - self.formed_ms


@dataclass(slots=True)
class InitialDelay:
    """The first rebalance of an empty group waits for more members; each new member extends the wait, up to a limit."""

    current_ms: int
    """The length of the wait now running."""
    left_ms: int
    """How much longer the wait may be extended in all."""
    member_came: bool = False
    """Whether a new member joined during the wait now running."""


class Round(Group):
    """The round of one classic group, or of a simple group (`protocol_type` None, state Empty)."""

    __slots__ = (
        "awaiting_joins", "claims", "claims_contested", "claims_in_kip_order", "claims_stale", "failure", "generation",
        "initial_delay", "invalid_assignment", "invalid_partitions", "is_resumed", "join_timer_key", "leader_id",
        "members", "pending_joins", "pending_syncs", "protocol_name", "protocol_type", "rebalances", "resync",
        "state", "state_timestamp_ms", "static_members", "subscribed_topics", "support",
    )  # fmt: skip

    kind = Kind.CLASSIC
    has_member_epochs = False
    state: State
    protocol_type: str | None

    def __init__(self, group_id: str, now_ms: int | None, fence: Fence) -> None:
        super().__init__(group_id, fence)
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
        self.pending_joins: dict[str, int] = {}
        """Ids handed out with MEMBER_ID_REQUIRED whose holders have not joined, with what each holds (held_bytes.py)."""
        self.pending_syncs: dict[str, None] = {}
        """Members of the current generation that have not asked for their assignment."""
        self.awaiting_joins = 0
        """Members whose join is parked."""
        self.support: dict[str, int] = {}
        """Protocol name -> members that offer it."""
        self.is_resumed = False
        """Whether this CompletingRebalance began before the log was loaded: any join ends it, because the log does not say
        what else a member offered."""
        self.initial_delay: InitialDelay | None = None
        """Set while an Empty group prepares its first generation."""
        self.subscribed_topics: frozenset[str] | None = None
        """Topics that the current generation subscribes to; None when the coordinator cannot read the subscriptions."""
        self.rebalances: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)
        self.claims: Claims | None = None
        """Invalid claims on partitions in the current generation (KIP-792); None if there are none."""
        self.claims_stale = 0
        """Partitions claimed from an older generation, over the life of this round."""
        self.claims_contested = 0
        """Partitions claimed by more than one member, over the life of this round."""
        self.claims_in_kip_order = 0
        """Subscriptions that were not read because only the listener of dialect kip-792 knows their order, in all rounds."""
        self.failure: AssignmentFailure | None = None
        """Why the current generation has no assignment and gets none; None where its leader has not said so."""
        self.resync: Resync | None = None
        """The resync that waits for members; only in Stable."""
        self.invalid_assignment: InvalidAssignment | None = None
        """What the leader assigned last, if it breaks rules."""
        self.invalid_partitions: dict[str, int] = {}
        """Partitions that were assigned against a rule, by rule, over the life of this round."""
        self.join_timer_key: TimerKey = ("classic-join", group_id)

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.generation

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)

    @property
    def rebalance_ended_ms(self) -> int | None:
        return self.rebalances[-1].ended_ms if self.rebalances else None

    @property
    def last_rebalance(self) -> PastRebalance | None:
        return _past(self.rebalances[-1]) if self.rebalances else None

    @property
    def past_rebalances(self) -> Sequence[PastRebalance]:
        return [_past(each) for each in self.rebalances]

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members' metadata are subscriptions, which the coordinator can read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def protects_all_offsets(self) -> bool:
        """Whether the group has members whose subscriptions the coordinator cannot read."""
        return self.state is not State.EMPTY and not self.uses_consumer_protocol

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading this topic; True for every topic when subscriptions cannot be read."""
        topics = self.subscribed_topics
        return self.uses_consumer_protocol if topics is None else topic in topics

    def expiry_base(self) -> ExpiryBase | None:
        """The table at the top of offsets/expire.py says why."""
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is State.EMPTY:
            since_ms = self.state_timestamp_ms
            return commit_timestamp_ms if since_ms is None else lambda _: since_ms
        if self.state is State.STABLE and self.uses_consumer_protocol and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    def find_committer(self, member_id: str, catalog: Catalog) -> Committer | None:  # noqa: ARG002 - streams groups need it
        return classic_committer(self.generation) if member_id in self.members else None

    def holder(self, topic: str, topic_id: bytes, partition: int, catalog: Catalog) -> str | None:  # noqa: ARG002 - as Group has it
        """As the leader assigned it; None also if its assignments cannot be read."""
        try:
            return next(
                (
                    each.member_id
                    for each in self.members.values()
                    if each.assignment and partition in parse_assignment(each.assignment).partitions.get(topic, ())
                ),
                None,
            )
        except DecodeError:
            return None

    def fencing_policies(self, settings: GroupSettings) -> None:
        """There are none: a member must have the generation."""

    def commit_timers(self, member_id: str) -> Sequence[Timer]:
        if self.state is _COMPLETING_REBALANCE:
            # The member has the new generation but no assignment yet: it may be losing the partitions that it commits.
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return self.members[member_id].alive.timers

    @property
    def resyncs(self) -> int:
        """How many times the leader has resynced the current generation."""
        return self.fence.at(self.generation).resyncs

    @property
    def have_all_joined(self) -> bool:
        """Whether every member, and everybody who was handed an id, has joined."""
        return self.awaiting_joins == len(self.members) and not self.pending_joins

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        """Whether a member that offers these protocols shares one with all members of the group."""
        if self.state is State.EMPTY:
            return bool(protocol_type and names)
        members = len(self.members)
        if self.protocol_type != protocol_type:
            return False
        support = self.support
        for name in names:  # noqa: SIM110 - for one or two names, a generator costs more than the loop
            if support.get(name, 0) == members:
                return True
        return False

    def rebalance_timeout_ms(self) -> int:
        """The longest timeout of the members (0 without members). Iterates over them: once per rebalance, not per join."""
        return max(0, max((member.rebalance_timeout_ms for member in self.members.values()), default=0))

    # --- members ------------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Adds a member that `supports` accepted. The first member decides the protocol type and leads."""
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
        self.hold(member.held_bytes - self.pending_joins.pop(member.member_id, 0))

    def remove(self, member_id: str) -> ClassicMember | None:
        """Removes a member, or an id that was only handed out; does nothing for other ids.

        The caller has answered the member's parked requests.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            assert member.awaiting_join is None
            assert member.awaiting_sync is None
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
            self.hold(-member.held_bytes)
            self.set_reading(member, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.hold(-self.pending_joins.pop(member_id, 0))
        self.pending_syncs.pop(member_id, None)
        return member

    def hand_out(self, member_id: str, held_bytes: int) -> None:
        """Remembers an id that was handed out with MEMBER_ID_REQUIRED, and counts it as so many bytes."""
        self.pending_joins[member_id] = held_bytes
        self.hold(held_bytes)

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._count_protocols(member, -1)
        self._resize(member, protocols_bytes(protocols) - protocols_bytes(member.protocols))
        member.protocols = protocols
        self._count_protocols(member, 1)

    def set_assignment(self, member: ClassicMember, assignment: bytes) -> None:
        self._resize(member, len(assignment) - len(member.assignment))
        member.assignment = assignment

    def set_assignments(self, assignments: Mapping[str, bytes]) -> int:
        """Gives each member its assignment, or an empty one; returns how many were left out."""
        left_out = 0
        for member_id, member in self.members.items():
            assignment = assignments.get(member_id)
            if assignment is None:
                left_out += 1
                assignment = b""
            if assignment or member.assignment:
                self.set_assignment(member, assignment)
        return left_out

    def _resize(self, member: ClassicMember, by_bytes: int) -> None:
        before, after = member.content_bytes, member.content_bytes + by_bytes
        member.content_bytes = after
        if before > SMALL_BYTES or after > SMALL_BYTES:
            self.hold(member_bytes(after) - member_bytes(before))

    def set_resync(self, resync: Resync | None) -> None:
        self.hold(_resync_bytes(resync) - _resync_bytes(self.resync))
        self.resync = resync

    def set_reading(self, member: ClassicMember, reading: Reading | None) -> None:
        """Keeps the member's metadata as parsed; None: forgets them."""
        before = member.reading
        if before is not reading:
            after_bytes = 0 if reading is None else reading.held_bytes
            self.hold_derived(after_bytes - (0 if before is None else before.held_bytes))
            member.reading = reading

    def park_join(self, member: ClassicMember, context: RequestContext, now_ms: int) -> RequestContext | None:
        """Parks the member's join; returns the join that was parked before, which the caller must answer."""
        earlier = member.awaiting_join
        self.awaiting_joins += earlier is None
        member.awaiting_join = context
        self.stop_waiting_for(member.member_id, now_ms)
        return earlier

    def stop_waiting_for(self, member_id: str, now_ms: int) -> None:
        """The member has joined, or it leaves or is removed: a rebalance that waits for joins no longer waits for it."""
        if self.rebalances and self.state is State.PREPARING_REBALANCE:
            rebalance = self.rebalances[-1]
            waited_ms = now_ms - rebalance.started_ms if self.initial_delay is None else 0
            rebalance.waits.setdefault(member_id, waited_ms)

    def unpark_join(self, member: ClassicMember) -> RequestContext | None:
        """The member's parked join, which the caller must answer now; None if it has none."""
        context = member.awaiting_join
        if context is not None:
            self.awaiting_joins -= 1
            member.awaiting_join = None
        return context

    def unpark_sync(self, member: ClassicMember) -> RequestContext | None:
        """The member's parked SyncGroup, which the caller must answer now; None if it has none."""
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
        self.is_resumed = False


def pending_bytes(member_id: str) -> int:
    """What a group holds of an id that was handed out."""
    return member_bytes(text_bytes(member_id))


def _resync_bytes(resync: Resync | None) -> int:
    return 0 if resync is None else sum(map(len, resync.assignments.values()))


def pending_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that forgets a member id with which no member has joined."""
    return ("classic-pending", group_id, member_id)


def pending_disarmed(group: Round) -> list[Timer]:
    """Disarms the timers of handed-out ids, for a group that is deleted or replaced."""
    return [Timer(pending_key(group.group_id, member_id), None) for member_id in group.pending_joins]


def resync_key(group: Round) -> TimerKey:
    """The timer that removes members that do not ask for the assignment that a resync gives them."""
    return ("classic-resync", group.group_id)


def sync_key(group: Round) -> TimerKey:
    """The timer that removes members of the current generation that do not ask for their assignment."""
    return ("classic-sync", group.group_id, group.generation)


def _past(rebalance: Rebalance) -> PastRebalance:
    return PastRebalance(rebalance.started_ms, rebalance.ended_ms, rebalance.cause.what, rebalance.cause.member_id)
