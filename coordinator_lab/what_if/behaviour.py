"""What the consumers of a recorded group did, independently of the settings that were in force.

Members have random ids; a consumer that comes back has another one. A member that joins continues the consumer with the same
instance id, or else the same client id and host, that went last before it. So a consumer is one process, or a series of
processes that replace each other.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from coordinator.groups.kinds import Kind
from coordinator.groups.rebalance_causes import NOT_IN_KAFKAS_LOG
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AssignmentAcknowledgedValue,
    AssignmentDeliveredValue,
    CommitDecidedValue,
    MemberExpiredValue,
    MemberFencedValue,
    MemberJoinedValue,
    MemberLeftValue,
    RebalanceCompletedValue,
    RebalanceOvertakenValue,
)
from coordinator_lab.what_if.recording import Events, Window
from coordinator_lab.what_if.settings import Settings

POLL_TIMEOUT = "poll timeout"
"""In the reason of a leave of Java's consumer that has exceeded max.poll.interval.ms."""
_DEFAULT_DELAY_MS, _DEFAULT_COMMIT_MS = 3_000, 5_000
_ENDED = ("closed", "reset")
Partition = tuple[str, int]
Rebalanced = (RebalanceCompletedValue, RebalanceOvertakenValue)


class Away(Enum):
    """How a consumer was away."""

    CLOSED = "closed"
    """It left the group."""
    KILLED = "killed"
    """Its process ended without a leave."""
    SILENT = "silent"
    """It sent nothing, and then continued."""
    BUSY = "busy"
    """It sent heartbeats and did not poll."""


class Absence(NamedTuple):
    """A time during which a consumer did not work. `to_ms` None: it did not come back."""

    kind: Away
    from_ms: int
    to_ms: int | None
    rejoins_after_ms: int = 0
    """From its return until it joined again."""


class Delay(NamedTuple):
    """How long a consumer took to follow a rebalance, from the heartbeat that said so, and when the rebalance began."""

    started_ms: int
    took_ms: int
    """Below 0: its heartbeats are more frequent than by default."""


class Late(NamedTuple):
    """A commit of an earlier epoch than its member's (groups with epochs)."""

    time_ms: int
    is_after_loss: bool
    """The member had lost a partition since."""


@dataclass(slots=True)
class Life:
    """One member id. `joined_ms` None: it joined before the events begin."""

    member_id: str
    instance_id: str | None
    client: tuple[str, str]
    joined_ms: int | None
    port: int = 0
    """Of the connection over which it joined; 0 if it is not known."""
    end: Any = None
    """MemberLeft, MemberExpired or MemberFenced; None: it stayed."""
    returned_ms: int | None = None
    """When it first heard that it is no member any more."""

    @property
    def ended_ms(self) -> int | None:
        return None if self.end is None else int(self.end.time_ms)


@dataclass(slots=True)
class Consumer:
    """A consumer's behaviour."""

    name: str
    client: tuple[str, str]
    instance_id: str | None
    first_ms: int
    member_ids: list[str]
    """Of its processes. A member of a group with epochs chooses its own, and assignors go by them."""
    absences: list[Absence] = field(default_factory=list)
    delays: list[Delay] = field(default_factory=list)
    """Classic: until it joined. With epochs: until it worked on the assignment."""
    late: list[Late] = field(default_factory=list)
    commit_ms: int | None = None
    """Between two of its commits; None: it made no two."""

    def delay_ms(self, at_ms: int, default_ms: int) -> int:
        """How long it takes to follow a rebalance at a time: as long as in the recorded one that is nearest."""
        if not self.delays:
            return default_ms
        place = bisect_left(self.delays, (at_ms, -1))
        near = self.delays[max(0, place - 1) : place + 1]
        return min(near, key=lambda each: abs(each.started_ms - at_ms)).took_ms

    def median_delay_ms(self, default_ms: int) -> int:
        """How long it usually takes to follow a rebalance."""
        return round(median(each.took_ms for each in self.delays)) if self.delays else default_ms


class Progress:
    """How far the records of each partition were read at a time: interpolated between the highest commits so far."""

    def __init__(self, events: Events) -> None:
        self._steps: dict[Partition, list[tuple[int, int]]] = {}
        for event in events:
            if isinstance(event, CommitDecidedValue):
                for partition, offset in accepted(event):
                    steps = self._steps.setdefault(partition, [])
                    if not steps or offset > steps[-1][1]:
                        steps.append((event.time_ms, offset))

    @property
    def partitions(self) -> list[Partition]:
        return sorted(self._steps)

    def at(self, partition: Partition, time_ms: float) -> int:
        """The offset of the next record; 0 before the first commit of the partition."""
        steps = self._steps.get(partition)
        if not steps or time_ms < steps[0][0]:
            return 0 if not steps else steps[0][1]
        place = bisect_left(steps, (time_ms, -1))
        if place == len(steps):
            return steps[-1][1]
        (before_ms, before), (after_ms, after) = steps[max(0, place - 1)], steps[place]
        if after_ms == before_ms:
            return after
        return int(before + (after - before) * (time_ms - before_ms) / (after_ms - before_ms))


@dataclass(slots=True, kw_only=True)
class Behaviour:
    """All consumers of a group, its partitions, and what the events say of the settings."""

    kind: Kind
    consumers: list[Consumer]
    topics: dict[str, int]
    """Topic -> number of partitions, as far as they were assigned or committed."""
    subtopologies: list[list[str]]
    """Of a streams group: topics that the same tasks read."""
    progress: Progress
    commit_ms: int
    """Between two commits of any member."""
    commits_on_revocation: bool
    delay_ms: int
    """`Consumer.delay_ms` of a consumer that took part in no recorded rebalance."""
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    initial_delay_ms: int | None
    derived: bool
    """The events were derived from a Kafka's log, which does not say why a member went."""


def assigned(event: AssignmentDeliveredValue | AssignmentAcknowledgedValue) -> set[Partition]:
    """The partitions of an assignment."""
    return {(topic.topic_name, index) for topic in event.topics for index in topic.partitions}


def heartbeat_ms(kind: Kind, session_ms: int) -> int:
    """The interval of heartbeats: Kafka's default, which in a classic group is at most a third of the session."""
    return min(3_000, session_ms // 3) if kind is Kind.CLASSIC else 5_000


def next_heartbeat(assigned_ms: int, at_ms: int, interval_ms: int) -> int:
    """The first heartbeat at or after a time; they begin an interval after the assignment."""
    return assigned_ms + max(1, -((assigned_ms - at_ms) // interval_ms)) * interval_ms


def silent_since(event: MemberExpiredValue) -> int:
    """When an expired member stopped, as far as its last request shows: on average half an interval of heartbeats later."""
    return event.time_ms - event.timeout_ms + heartbeat_ms(Kind(event.group_kind), event.timeout_ms) // 2


def accepted(event: CommitDecidedValue) -> Iterable[tuple[Partition, int]]:
    """The offsets of a commit that were accepted."""
    for topic in event.topics:
        for each in topic.partitions:
            if not each.error_code:
                yield (topic.topic_name, each.partition), each.committed_offset


def behaviour(events: Events, window: Window, max_poll_ms: int) -> Behaviour:
    """What the consumers did until the end of the window. `max_poll_ms`: their max.poll.interval.ms."""
    events = [each for each in events if each.time_ms <= window.to_ms]
    lives = _lives(events)
    starts = {life.member_id: life for life in lives}
    kind = _kind(events)
    timeouts = {name: _most_frequent(_timeouts(events, name)) for name in ("session", "rebalance")}
    joined = _rejoins(events, starts)
    delays = revocations = _since_heartbeat(joined, events, timeouts["session"])
    if kind is not Kind.CLASSIC:
        delays, revocations = _followed(events), _followed(events, losses_only=True)
    late, commits = _late(events), _commit_times(events)
    consumers = [_consumer(chain, delays, late, window, max_poll_ms) for chain in _chains(lives)]
    for consumer in consumers:
        consumer.commit_ms = _commit_interval(commits.get(each, []) for each in consumer.member_ids)
    consumers = [each for each in consumers if each.first_ms < window.to_ms and _is_there(each, window)]
    took = [each.took_ms for some in delays.values() for each in some]
    topics = _topics(events)
    return Behaviour(
        kind=kind,
        consumers=consumers,
        topics=topics,
        subtopologies=_subtopologies(events, topics),
        progress=Progress(events),
        commit_ms=_commit_interval(commits.values()) or _DEFAULT_COMMIT_MS,
        commits_on_revocation=_commits_on_revocation(joined if kind is Kind.CLASSIC else revocations, commits),
        delay_ms=round(median(took)) if took else 0,
        session_timeout_ms=timeouts["session"],
        rebalance_timeout_ms=timeouts["rebalance"],
        initial_delay_ms=_initial_delay(events),
        derived=any(getattr(each, "reason", None) == NOT_IN_KAFKAS_LOG for each in events),
    )  # fmt: skip


def _is_there(consumer: Consumer, window: Window) -> bool:
    last = consumer.absences[-1] if consumer.absences else None
    return last is None or last.to_ms is not None or last.from_ms > window.from_ms


def _kind(events: Events) -> Kind:
    kinds = [each.group_kind for each in events if isinstance(each, MemberJoinedValue | AssignmentDeliveredValue)]
    return Kind(kinds[-1]) if kinds else Kind.CLASSIC


def _timeouts(events: Events, which: str) -> list[int]:
    return [
        each.timeout_ms
        for each in events
        if isinstance(each, MemberExpiredValue) and each.timeout == which and each.timeout_ms > 0
    ]


def _most_frequent(values: list[int]) -> int | None:
    return Counter(values).most_common(1)[0][0] if values else None


# --- members ----------------------------------------------------------------------------------------------------------


def _lives(events: Events) -> list[Life]:
    """All members, in the order in which they are first seen. A member of a consumer group joins again with the same id."""
    found: list[Life] = []
    lives: dict[str, Life] = {}
    for event in events:
        member_id = getattr(event, "member_id", None)
        if isinstance(event, MemberJoinedValue):
            client = (event.client_id or "", event.client_host)
            lives[event.member_id] = Life(
                event.member_id, event.group_instance_id, client, event.time_ms, event.client_port
            )
            found.append(lives[event.member_id])
        elif not member_id:
            continue
        elif isinstance(event, MemberLeftValue | MemberExpiredValue | AssignmentDeliveredValue):
            if member_id not in lives:
                lives[member_id] = Life(member_id, getattr(event, "group_instance_id", None), ("", ""), None)
                found.append(lives[member_id])
            life = lives[member_id]
            if not isinstance(event, AssignmentDeliveredValue) and life.end is None:
                life.end = event
        elif member_id in lives and isinstance(event, MemberFencedValue):
            life = lives[member_id]
            if life.end is not None:
                life.returned_ms = life.returned_ms or event.time_ms
            elif event.error_code == ErrorCode.FENCED_INSTANCE_ID:
                life.end = event
        elif member_id in lives and isinstance(event, CommitDecidedValue) and event.error_code:
            life = lives[member_id]
            if life.end is not None:
                life.returned_ms = life.returned_ms or event.time_ms
    return found


def _chains(lives: list[Life]) -> list[list[Life]]:
    """The lives of each consumer."""
    chains: list[list[Life]] = []
    for life in lives:
        before = [
            chain
            for chain in chains
            if life.joined_ms is not None
            and (ended_ms := chain[-1].ended_ms) is not None
            and ended_ms <= life.joined_ms
            and _is_same(chain[-1], life)
        ]
        if before:
            # Those whose return was seen come first; of several that went, the one that went first.
            min(before, key=lambda chain: (_return_order(chain[-1]), chain[-1].ended_ms)).append(life)
        else:
            chains.append([life])
    return chains


def _return_order(life: Life) -> float:
    return life.returned_ms if life.returned_ms is not None else float("inf")


def _is_same(before: Life, after: Life) -> bool:
    if before.member_id == after.member_id:
        return True
    if before.instance_id or after.instance_id:
        return before.instance_id == after.instance_id
    return before.client == after.client and after.client != ("", "")


def _consumer(
    chain: list[Life], delays: dict[str, list[Delay]], late: dict[str, list[Late]], window: Window, max_poll_ms: int
) -> Consumer:
    first = chain[0]
    joined_ms = window.from_ms if first.joined_ms is None else first.joined_ms
    member_ids = list(dict.fromkeys(life.member_id for life in chain))
    consumer = Consumer(first.member_id, first.client, first.instance_id, joined_ms, member_ids)
    for life, following in zip(chain, [*chain[1:], None], strict=True):
        if life.end is not None:
            consumer.absences.append(_absence(life, following, max_poll_ms))
    for member_id in member_ids:
        consumer.delays += delays.get(member_id, [])
        consumer.late += late.get(member_id, [])
    consumer.delays.sort()
    consumer.late.sort()
    return consumer


def _absence(life: Life, following: Life | None, max_poll_ms: int) -> Absence:
    end, joined_ms = life.end, None if following is None else following.joined_ms
    returned_ms = joined_ms if life.returned_ms is None or joined_ms is None else min(life.returned_ms, joined_ms)
    after_ms = (joined_ms or 0) - (returned_ms or 0)
    ended_ms: int = end.time_ms
    if isinstance(end, MemberExpiredValue):
        from_ms = ended_ms - max(end.timeout_ms, 0)
        if end.timeout != "session":
            return Absence(Away.BUSY, from_ms, returned_ms, after_ms)
        if end.connection_end in _ENDED or returned_ms is None:
            return Absence(Away.KILLED, from_ms, joined_ms)
        return Absence(Away.SILENT, from_ms, returned_ms, after_ms)
    if isinstance(end, MemberFencedValue):
        return Absence(Away.KILLED, ended_ms, joined_ms)
    # A client that gives no reason is known by the connection over which it comes back, as in `groups why`.
    goes_on = following is not None and life.port > 0 and life.port == following.port
    if POLL_TIMEOUT in (end.reason or "").lower() or (goes_on and not end.reason):
        return Absence(Away.BUSY, ended_ms - max_poll_ms, joined_ms)
    return Absence(Away.CLOSED, ended_ms, joined_ms)


# --- times ------------------------------------------------------------------------------------------------------------


def _initial_delay(events: Events) -> int | None:
    """While members join, an empty group waits for another delay. So a multiple of Kafka's default is the default."""
    delays = [each.delay_ms for each in events if isinstance(each, Rebalanced) and each.delay_ms > 0]
    lowest = min(delays, default=None)
    return _DEFAULT_DELAY_MS if lowest is not None and lowest % _DEFAULT_DELAY_MS == 0 else lowest


def _rejoins(events: Events, lives: dict[str, Life]) -> dict[str, list[Delay]]:
    """Member id -> the rebalances that it joined as a member that was there before."""
    found: dict[str, list[Delay]] = {}
    for event in events:
        if not isinstance(event, Rebalanced) or event.duration_ms < 0:
            continue
        started_ms = event.time_ms - event.duration_ms
        for wait in event.waited_for:
            life, took_ms = lives.get(wait.member_id), event.delay_ms + wait.waited_ms
            if life is None or (life.joined_ms is not None and life.joined_ms >= started_ms):
                continue
            if life.ended_ms is None or life.ended_ms > started_ms + took_ms:
                found.setdefault(wait.member_id, []).append(Delay(started_ms, took_ms))
    return found


def _since_heartbeat(joined: dict[str, list[Delay]], events: Events, session_ms: int | None) -> dict[str, list[Delay]]:
    """The delays without the wait for the heartbeat, which follows from the end of the rebalance before."""
    ends = sorted(each.time_ms for each in events if isinstance(each, RebalanceCompletedValue))
    interval_ms = heartbeat_ms(Kind.CLASSIC, session_ms or Settings().session_timeout_ms)
    found: dict[str, list[Delay]] = {}
    for member_id, delays in joined.items():
        for each in delays:
            place = bisect_left(ends, each.started_ms)
            hears_ms = next_heartbeat(ends[place - 1], each.started_ms, interval_ms) if place else each.started_ms
            found.setdefault(member_id, []).append(Delay(each.started_ms, each.started_ms + each.took_ms - hears_ms))
    return found


def _followed(events: Events, *, losses_only: bool = False) -> dict[str, list[Delay]]:
    """Member id -> the assignments of a group with epochs that it received, did not have, and reported to have.

    `losses_only`: those that take partitions away.
    """
    found: dict[str, list[Delay]] = {}
    received: dict[str, int] = {}
    has: dict[str, set[Partition]] = {}
    for event in events:
        member_id = getattr(event, "member_id", None) or ""
        if isinstance(event, AssignmentDeliveredValue):
            given, before = assigned(event), has.get(member_id, set())
            if before - given or (given != before and not losses_only):
                received.setdefault(member_id, event.time_ms)
        elif isinstance(event, AssignmentAcknowledgedValue):
            has[member_id] = assigned(event)
            if (at_ms := received.pop(member_id, None)) is not None:
                found.setdefault(member_id, []).append(Delay(at_ms, event.time_ms - at_ms))
        elif isinstance(event, MemberLeftValue | MemberExpiredValue):
            received.pop(member_id, None)
            has.pop(member_id, None)
    return found


def _late(events: Events) -> dict[str, list[Late]]:
    found: dict[str, list[Late]] = {}
    for event in events:
        has_epochs = isinstance(event, CommitDecidedValue) and event.group_kind != Kind.CLASSIC
        if has_epochs and 0 < event.generation_id_or_member_epoch < event.member_epoch:
            late = Late(event.time_ms, event.revocation_epoch >= event.generation_id_or_member_epoch)
            found.setdefault(event.member_id, []).append(late)
    return found


def _commit_times(events: Events) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, CommitDecidedValue) and event.member_id and not event.error_code:
            found.setdefault(event.member_id, []).append(event.time_ms)
    return found


def _commit_interval(commits: Iterable[list[int]]) -> int | None:
    gaps = [after - before for times in commits for before, after in pairwise(times)]
    return max(100, round(median(gaps))) if gaps else None


def _commits_on_revocation(delays: dict[str, list[Delay]], commits: dict[str, list[int]]) -> bool:
    """Whether most members that joined a rebalance again had committed just before."""
    votes = [
        any(each.started_ms <= time_ms <= each.started_ms + each.took_ms for time_ms in commits[member_id])
        for member_id, some in delays.items()
        if member_id in commits
        for each in some
    ]
    return sum(votes) * 2 > len(votes) if votes else True


def _topics(events: Events) -> dict[str, int]:
    topics: dict[str, int] = {}
    for event in events:
        if isinstance(event, AssignmentDeliveredValue):
            for topic in event.topics:
                topics[topic.topic_name] = max(
                    [topics.get(topic.topic_name, 0), *(1 + each for each in topic.partitions)]
                )
        elif isinstance(event, CommitDecidedValue):
            for (name, partition), _ in accepted(event):
                topics[name] = max(topics.get(name, 0), partition + 1)
    return topics


def _subtopologies(events: Events, topics: dict[str, int]) -> list[list[str]]:
    """The topics by the tasks that read them: task n reads partition n of each, as far as the topic has that many."""
    owners: dict[str, set[tuple[int, int]]] = {name: set() for name in topics}
    for number, event in enumerate(events):
        if isinstance(event, AssignmentDeliveredValue):
            for name, partition in assigned(event):
                owners[name].add((number, partition))

    def is_same(one: str, other: str) -> bool:
        count = min(topics[one], topics[other])
        first, second = ({each for each in owners[name] if each[1] < count} for name in (one, other))
        return first == second

    found: list[list[str]] = []
    for name in sorted(topics, key=lambda name: (-topics[name], name)):
        same = next((each for each in found if is_same(each[0], name)), None)
        if same is None:
            found.append([name])
        else:
            same.append(name)
    return found
