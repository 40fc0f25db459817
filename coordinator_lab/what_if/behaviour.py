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

POLL_TIMEOUT = "poll timeout"
"""In the reason of a leave of Java's consumer that has exceeded max.poll.interval.ms."""
_DEFAULT_DELAY_MS = 3_000
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


class Rejoin(NamedTuple):
    """How long a consumer took from the start of a rebalance until it joined."""

    started_ms: int
    took_ms: int


@dataclass(slots=True)
class Life:
    """One member id. `joined_ms` None: it joined before the events begin."""

    member_id: str
    instance_id: str | None
    client: tuple[str, str]
    joined_ms: int | None
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
    absences: list[Absence] = field(default_factory=list)
    rejoins: list[Rejoin] = field(default_factory=list)

    def rejoin_ms(self, at_ms: int, default_ms: int) -> int:
        """How long it takes to join a rebalance that starts at a time: as long as in the recorded one that is nearest."""
        if not self.rejoins:
            return default_ms
        place = bisect_left(self.rejoins, (at_ms, -1))
        near = self.rejoins[max(0, place - 1) : place + 1]
        return min(near, key=lambda each: abs(each.started_ms - at_ms)).took_ms


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
    progress: Progress
    commit_ms: int
    """Between two commits of a member."""
    commits_on_revocation: bool
    rejoin_ms: int
    """Of a consumer that took part in no recorded rebalance."""
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    initial_delay_ms: int | None
    derived: bool
    """The events were derived from a Kafka's log, which does not say why a member went."""


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
    rejoins = _rejoins(events, starts)
    consumers = [_consumer(chain, rejoins, window, max_poll_ms) for chain in _chains(lives)]
    consumers = [each for each in consumers if each.first_ms < window.to_ms and _is_there(each, window)]
    took = [each.took_ms for some in rejoins.values() for each in some]
    commits = _commit_times(events)
    return Behaviour(
        kind=_kind(events),
        consumers=consumers,
        topics=_topics(events),
        progress=Progress(events),
        commit_ms=_commit_interval(commits),
        commits_on_revocation=_commits_on_revocation(rejoins, commits),
        rejoin_ms=round(median(took)) if took else 0,
        session_timeout_ms=_most_frequent(_timeouts(events, "session")),
        rebalance_timeout_ms=_most_frequent(_timeouts(events, "rebalance")),
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
            lives[event.member_id] = Life(event.member_id, event.group_instance_id, client, event.time_ms)
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


def _consumer(chain: list[Life], rejoins: dict[str, list[Rejoin]], window: Window, max_poll_ms: int) -> Consumer:
    first = chain[0]
    joined_ms = window.from_ms if first.joined_ms is None else first.joined_ms
    consumer = Consumer(first.member_id, first.client, first.instance_id, joined_ms)
    for life, following in zip(chain, [*chain[1:], None], strict=True):
        consumer.rejoins += rejoins.get(life.member_id, [])
        if life.end is not None:
            consumer.absences.append(_absence(life, following, max_poll_ms))
    consumer.rejoins.sort()
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
    if POLL_TIMEOUT in (end.reason or "").lower():
        return Absence(Away.BUSY, ended_ms - max_poll_ms, joined_ms)
    return Absence(Away.CLOSED, ended_ms, joined_ms)


# --- times ------------------------------------------------------------------------------------------------------------


def _initial_delay(events: Events) -> int | None:
    """While members join, an empty group waits for another delay. So a multiple of Kafka's default is the default."""
    delays = [each.delay_ms for each in events if isinstance(each, Rebalanced) and each.delay_ms > 0]
    lowest = min(delays, default=None)
    return _DEFAULT_DELAY_MS if lowest is not None and lowest % _DEFAULT_DELAY_MS == 0 else lowest


def _rejoins(events: Events, lives: dict[str, Life]) -> dict[str, list[Rejoin]]:
    """Member id -> the rebalances that it joined as a member that was there before."""
    found: dict[str, list[Rejoin]] = {}
    for event in events:
        if not isinstance(event, Rebalanced) or event.duration_ms < 0:
            continue
        started_ms = event.time_ms - event.duration_ms
        for wait in event.waited_for:
            life, took_ms = lives.get(wait.member_id), event.delay_ms + wait.waited_ms
            if life is None or (life.joined_ms is not None and life.joined_ms >= started_ms):
                continue
            if life.ended_ms is None or life.ended_ms > started_ms + took_ms:
                found.setdefault(wait.member_id, []).append(Rejoin(started_ms, took_ms))
    return found


def _commit_times(events: Events) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        if isinstance(event, CommitDecidedValue) and event.member_id and not event.error_code:
            found.setdefault(event.member_id, []).append(event.time_ms)
    return found


def _commit_interval(commits: dict[str, list[int]]) -> int:
    gaps = [after - before for times in commits.values() for before, after in pairwise(times)]
    return max(100, round(median(gaps))) if gaps else 5_000


def _commits_on_revocation(rejoins: dict[str, list[Rejoin]], commits: dict[str, list[int]]) -> bool:
    """Whether most members that joined a rebalance again had committed just before."""
    votes = [
        any(each.started_ms <= time_ms <= each.started_ms + each.took_ms for time_ms in commits[member_id])
        for member_id, some in rejoins.items()
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
