"""The history of a run as its clients saw it, and the invariants that follow from it.

Nothing here looks into the server. A client reports when it sends a request and when it receives the response. A request
without a response may have taken effect at any time since, or never. Time is counted in ticks, one per reported event, so
that two events at the same instant have an order.

- I5 (and I3): a committed offset is a register. A read may return the value of any attempt, unless another value is *known*
  to have been written after that attempt and before the read began. A write is known if it was acknowledged or read,
  because reads return only durable values. The value of a refused attempt must never be read.
- I7: the generations that members receive only grow, and each has one leader, one protocol and one list of members, whoever
  receives it and however often. A generation is durable before a member receives it, so a crash can neither take it back nor
  give its number to another one. A static member is the same under each of its member ids.
- I8: within one generation no partition is assigned to two members, and all members get parts of the same assignment. A
  leader may replace it by another one (resyncs.py).
- I9: once a member has received a generation, requests with an older generation are refused. Once a static member
  was assigned under a new member id, requests with the old id are refused; so are those of a member that was evicted.
- I30: a rebalance from outside that was acknowledged happens. After a load the group is in the generation or epoch that was
  acknowledged, or in a rebalance to it (invariants.py); when everything has converged, it is in it (convergence.py).

A group that is deleted or expires starts over; no conclusions about its generations are drawn around that time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coordinator.protocol.messages import JoinGroupResponse
from coordinator_lab.simulation.resyncs import Assignments

OnBroken = Callable[[str, str], None]
"""Reports a broken invariant: its name and the details."""

FORCED = "I30 forced rebalances happen"
HEARTBEAT = "heartbeat"
FOREVER = 1 << 62
_FRESH_ID_CHARS = len("-00000000-0000-0000-0000-000000000000")
Key = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(slots=True)
class Attempt:
    """An attempt to commit an offset, or to delete it (`offset` is None). Times are ticks."""

    key: Key
    offset: int | None
    started: int
    ended: int = FOREVER
    """A tick by which it has taken effect; FOREVER while that is unknown."""
    refused: bool = False


@dataclass(slots=True)
class _Register:
    known: int = -1
    """Start of the latest write that is known to have taken effect; -1 if none is."""
    deletions: list[Attempt] = field(default_factory=list)


@dataclass(slots=True)
class _Generation:
    """What JoinGroup responses said about one generation. Members are named by identity (`History._identity`)."""

    leader: str
    protocol: str
    members: frozenset[str] | None = None
    """None until the leader has received them."""
    receivers: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _GroupHistory:
    """What is known about a group's generations since it was last deleted."""

    since: int = 0
    """Responses to requests sent before this tick may be those of the deleted group."""
    generation: int = -1
    known_at: int = 0
    received: dict[int, _Generation] = field(default_factory=dict)
    assignments: dict[int, Assignments] = field(default_factory=dict)
    """By generation."""
    holders: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Instance id -> the member id that was last assigned, and the tick at which that was known."""
    replaced: dict[str, int] = field(default_factory=dict)
    """Replaced or removed member id -> the tick at which that was known."""
    forced: int = 0
    """The highest generation or epoch to which an acknowledged rebalance from outside leads."""


class History:
    """The history of one run."""

    def __init__(self, broken: OnBroken) -> None:
        self.now = 0
        self.acknowledged = 0
        self.reads = 0
        self.assignments = 0
        self.shards_are_held = False
        """Whether shards load slowly, or have been kept loading: meanwhile classic heartbeats get NONE, as in Kafka."""
        self.instance_ids: set[str] = set()
        """The instance ids of all static members of classic groups."""
        self._broken = broken
        self._registers: dict[Key, _Register] = {}
        self._attempts: dict[str, Attempt] = {}
        self._unnamed: dict[int, Attempt] = {}
        """By offset, for commits without metadata."""
        self._groups: dict[str, _GroupHistory] = {}
        self._deletions_in_doubt: dict[str, int] = {}
        """Group -> number of deletions that are running, or whose outcome is unknown."""

    def tick(self) -> int:
        """Advances the time by one tick and returns it."""
        self.now += 1
        return self.now

    # --- offsets ------------------------------------------------------------------------------------------------------

    def commit_started(self, key: Key, offset: int) -> tuple[str, Attempt]:
        """Records a commit that is about to be sent. Returns its name and the attempt.

        The name must be its metadata, unless no other commit of the run has this offset and none: it is known by that.
        """
        attempt = Attempt(key, offset, self.tick())
        name = f"a{attempt.started}"
        self._attempts[name] = attempt
        self._unnamed[offset] = attempt
        self._register(key)
        return name, attempt

    def deletion_started(self, keys: Iterable[Key]) -> list[Attempt]:
        """Records a deletion of offsets that is about to be sent."""
        started = self.tick()
        attempts = []
        for key in keys:
            attempts.append(Attempt(key, None, started))
            self._register(key).deletions.append(attempts[-1])
        return attempts

    def may_be_deleted(self, key: Key) -> bool:
        """Whether a deletion was requested and its outcome is unknown."""
        deletions = self._register(key).deletions
        return any(each.ended == FOREVER and not each.refused for each in deletions)

    def expired(self, key: Key) -> None:
        """Records that the server removed an offset, which no acknowledged request asked for."""
        now = self.tick()
        self._register(key).deletions.append(Attempt(key, None, now, now))

    def keys_of(self, group_id: str) -> list[Key]:
        """Every partition of a group for which a client tried to commit an offset."""
        return [key for key in self._registers if key[0] == group_id]

    def groups(self) -> list[str]:
        """Every group for which a client tried to commit offsets."""
        return list(dict.fromkeys(key[0] for key in self._registers))

    def took_effect(self, attempt: Attempt) -> None:
        """Records that a write was acknowledged, or that a read returned its value."""
        attempt.ended = min(attempt.ended, self.tick())
        register = self._register(attempt.key)
        register.known = max(register.known, attempt.started)

    def acknowledge(self, attempt: Attempt) -> None:
        """Records a response that reports success."""
        self.acknowledged += 1
        self.took_effect(attempt)

    def refuse(self, attempt: Attempt) -> None:
        """Records a response that reports a failure."""
        attempt.refused = True

    def read_started(self, keys: Iterable[Key]) -> dict[Key, int]:
        """Records a read that is about to be sent. Returns the known writes, to be passed to `read_answered`."""
        self.tick()
        return {key: self._register(key).known for key in keys}

    def read_answered(self, key: Key, known: int, offset: int, metadata: str, client: str) -> None:
        """Checks a read that returned `offset`, -1 for none. `known` is from `read_started`."""
        self.reads += 1
        where = f"{client} read {offset} {metadata!r} of {key}"
        if offset == -1 and not metadata:
            deletions = [each for each in self._register(key).deletions if not each.refused]
            if known >= 0 and all(each.ended < known for each in deletions):
                self._broken("I5 offsets answer", f"{where}, but the write begun at {known} was acknowledged")
            return
        attempt = self._attempts.get(metadata) if metadata else self._unnamed.get(offset)
        if attempt is None or attempt.key != key or attempt.offset != offset:
            self._broken("I5 offsets answer", f"{where}, which was never written")
        elif attempt.refused:
            self._broken("I5 offsets answer", f"{where}, a commit that was refused")
        elif attempt.ended < known:
            self._broken("I5 offsets answer", f"{where} ({attempt}), older than the write begun at {known}")
        else:
            self.took_effect(attempt)

    def _register(self, key: Key) -> _Register:
        register = self._registers.get(key)
        if register is None:
            register = self._registers[key] = _Register()
        return register

    # --- generations --------------------------------------------------------------------------------------------------

    def group_deletion_begins(self, group_id: str) -> None:
        """Records a deletion of a group that is about to be sent."""
        self._deletions_in_doubt[group_id] = self._deletions_in_doubt.get(group_id, 0) + 1
        self._groups.pop(group_id, None)

    def group_deletion_ends(self, group_id: str) -> None:
        """Records that the deletion succeeded or was refused; from now on there is one group again."""
        self._groups[group_id] = _GroupHistory(since=self.tick())
        self._deletions_in_doubt[group_id] -= 1

    def group_may_be_deleted(self, group_id: str) -> bool:
        """Whether a deletion was requested and its outcome is unknown."""
        return self._deletions_in_doubt.get(group_id, 0) > 0

    def group_expired(self, group_id: str) -> None:
        """Records that the server removed an expired group."""
        self._groups[group_id] = _GroupHistory(since=self.tick())

    def joined(self, group_id: str, generation: int, asked: int, client: str) -> None:
        """Checks the generation in the response to a JoinGroup request that was sent at tick `asked`."""
        group = self._conclusive(group_id, asked)
        if group is not None and group.known_at < asked and generation < group.generation:
            self._broken(
                "I7 generations grow", f"{client} joined generation {generation} of {group_id} after {group.generation}"
            )

    def received(self, group_id: str, response: JoinGroupResponse, asked: int, client: str) -> None:
        """Checks and records a place in a generation: the response to a JoinGroup request that was sent at tick `asked`."""
        self.joined(group_id, response.generation_id, asked, client)
        group = self._conclusive(group_id, asked)
        if group is None:
            return
        number, leader = response.generation_id, self._identity(response.leader)
        members = frozenset(self._identity(each.member_id) for each in response.members)
        known = group.received.setdefault(number, _Generation(leader, response.protocol_name or ""))
        if members and known.members is None:
            known.members = members
        known.receivers.add(self._identity(response.member_id))
        if (
            (leader, response.protocol_name) != (known.leader, known.protocol)
            or (members and members != known.members)
            or (known.members is not None and not known.receivers <= known.members)
        ):
            said = f"{leader} {response.protocol_name} {sorted(members)}"
            self._broken(
                "I7 one content", f"{client} received generation {number} of {group_id} as {said}, not {known}"
            )
        self._note_generation(group, number)

    def _identity(self, member_id: str) -> str:
        """The instance id of a static member, with which its member ids begin; of another member, the member id."""
        name = member_id[:-_FRESH_ID_CHARS]
        return name if name in self.instance_ids else member_id

    def _note_generation(self, group: _GroupHistory, generation: int) -> None:
        now = self.tick()
        if generation > group.generation:
            group.generation, group.known_at = generation, now

    def assigned(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        token: bytes,
        partitions: Iterable[tuple[str, int]],
        asked: int,
    ) -> None:
        """Checks and records the response to a SyncGroup request: a part of the assignment that has this token."""
        self.assignments += 1
        self.accepted(group_id, generation, member_id, asked, "sync")
        group = self._conclusive(group_id, asked)
        if group is None:
            return
        identity = instance_id if instance_id is not None else member_id
        assignments = group.assignments.setdefault(generation, Assignments())
        problem = assignments.received(identity, token, partitions, asked, self.now)
        if problem is not None:
            self._broken("I8 single owner", f"generation {generation} of {group_id} {problem}")
        self._note_generation(group, generation)
        if instance_id is not None:
            self._record_holder(group, instance_id, member_id, asked, self.now)

    def resync_started(self, group_id: str, generation: int, token: bytes) -> None:
        """Records that the leader of a generation is about to replace its assignment."""
        group = self._conclusive(group_id, self.now)
        if group is not None:
            group.assignments.setdefault(generation, Assignments()).resync(token)

    def given_up(self, group_id: str, generation: int, member_id: str) -> None:
        """Records that a member is about to join again, or that its process has ended."""
        group = self._groups.get(group_id)
        if group is not None and generation in group.assignments:
            group.assignments[generation].given_up(self._identity(member_id))

    def _record_holder(self, group: _GroupHistory, instance_id: str, member_id: str, asked: int, now: int) -> None:
        """Records which member id holds the instance id; of two concurrent assignments the order is unknown."""
        replaced, since = group.holders.get(instance_id, (member_id, 0))
        if replaced == member_id or since < asked:
            group.holders[instance_id] = (member_id, now)
            if replaced != member_id:
                group.replaced[replaced] = now
        else:
            del group.holders[instance_id]

    def commit_accepted(
        self, group_id: str, generation: int, member_id: str, asked: int, partitions: Iterable[tuple[str, int]]
    ) -> None:
        """Checks an accepted commit, which a member sent at tick `asked`."""
        self.accepted(group_id, generation, member_id, asked, "commit")
        group = self._conclusive(group_id, asked)
        if group is not None and generation in group.assignments:
            problem = group.assignments[generation].commit_accepted(self._identity(member_id), partitions, asked)
            if problem is not None:
                self._broken("I9 fencing", f"generation {generation} of {group_id} {problem}")

    def accepted(self, group_id: str, generation: int, member_id: str, asked: int, request_name: str) -> None:
        """Checks an accepted request, which a member sent at tick `asked`."""
        if request_name == HEARTBEAT and self.shards_are_held:
            return
        group = self._conclusive(group_id, asked)
        if group is None:
            return
        if group.known_at < asked and generation < group.generation:
            self._broken(
                "I9 fencing",
                f"{request_name} of {member_id} in generation {generation} of {group_id} was accepted after {group.generation}",
            )
        replaced_at = group.replaced.get(member_id)
        if replaced_at is not None and replaced_at < asked:
            self._broken(
                "I9 fencing",
                f"{request_name} of {member_id} of {group_id} was accepted after it had been replaced or removed",
            )

    def rebalance_acknowledged(self, group_id: str, epoch: int, asked: int) -> None:
        """Records that the server acknowledged a rebalance that leads to this epoch; the request was sent at tick `asked`."""
        group = self._conclusive(group_id, asked)
        if group is not None:
            group.forced = max(group.forced, epoch)

    def member_removed(self, group_id: str, member_id: str, asked: int) -> None:
        """Records that the server acknowledged the removal of a member of a classic group, which was requested at `asked`."""
        group = self._conclusive(group_id, asked)
        if group is not None:
            group.replaced[member_id] = self.tick()

    def forced_epoch(self, group_id: str) -> int:
        """The generation or epoch to which acknowledged rebalances from outside lead; 0 if there is none."""
        group = None if self.group_may_be_deleted(group_id) else self._groups.get(group_id)
        return 0 if group is None else group.forced

    def _conclusive(self, group_id: str, asked: int) -> _GroupHistory | None:
        """The group's history; None if a response to a request sent at tick `asked` permits no conclusion about it."""
        if self.group_may_be_deleted(group_id):
            return None
        group = self._groups.setdefault(group_id, _GroupHistory())
        return group if asked > group.since else None
