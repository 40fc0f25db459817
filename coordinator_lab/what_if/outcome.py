"""What the events of a group say about the harm of its rebalances: the same measures for a recording and for a replay."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from coordinator.groups.events import FENCES
from coordinator.groups.group_history import Interval, union_ms
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AssignmentAcknowledgedValue,
    AssignmentDeliveredValue,
    CommitDecidedValue,
    MemberExpiredValue,
    MemberFencedValue,
    MemberLeftValue,
    OffsetsRewoundValue,
    RebalanceStartedValue,
)
from coordinator_lab.what_if.behaviour import Partition, Progress, Rebalanced, accepted, assigned, silent_since
from coordinator_lab.what_if.recording import Events, Window
from coordinator_lab.what_if.replay import Work

_GONE, _STOPPED, _REVOKED, _DECIDED, _CONTINUED = range(5)
"""The order of things that happen at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The measures of a window."""

    rebalances: int
    rebalancing_seconds: float
    seconds_without_owner: float
    """During which at least one partition had no member that worked on it."""
    partition_seconds_without_owner: float
    records_read_twice: int
    """Read by the owner before and not committed, when the next owner began."""
    records_of_rewound_offsets: int
    zombie_commits_accepted: int
    """Commits of partitions that were another member's."""
    zombie_commits_refused: int

    def as_values(self) -> dict[str, Any]:
        return asdict(self)


class _Owners:
    """Who works on which partition, step by step."""

    def __init__(self, progress: Progress, window: Window) -> None:
        self._progress = progress
        self._window = window
        self._assigned: dict[str, set[Partition]] = {}
        self._since: dict[tuple[str, Partition], int] = {}
        self._stopped: set[str] = set()
        self._last: dict[Partition, tuple[str, int]] = {}
        """Who worked on a partition last, and until when."""
        self._committed: dict[Partition, int] = {}
        self.worked: dict[Partition, list[Interval]] = {}
        self.again = 0
        self.zombies = 0

    def give(self, member_id: str, partitions: set[Partition], now_ms: int) -> None:
        """The member has exactly these partitions from now on."""
        for partition in self._assigned.get(member_id, set()) - partitions:
            self._close(member_id, partition, now_ms)
        for partition in partitions - self._assigned.get(member_id, set()):
            self._count_again(partition, now_ms)
            self.worked.setdefault(partition, [])
            if member_id not in self._stopped:
                self._since[member_id, partition] = now_ms
        self._assigned[member_id] = set(partitions)

    def of(self, member_id: str) -> set[Partition]:
        return self._assigned.get(member_id, set())

    def stop(self, member_id: str, now_ms: int) -> None:
        """The member no longer works on its partitions, but has them."""
        self._stopped.add(member_id)
        for partition in self.of(member_id):
            self._close(member_id, partition, now_ms)

    def go_on(self, member_id: str, now_ms: int) -> None:
        self._stopped.discard(member_id)
        for partition in self.of(member_id):
            self._since[member_id, partition] = now_ms

    def commit(self, event: CommitDecidedValue) -> None:
        is_zombie = False
        for partition, offset in accepted(event):
            self._committed[partition] = offset
            if event.member_id and partition not in self.of(event.member_id):
                is_zombie |= any(partition in each for each in self._assigned.values())
        self.zombies += is_zombie and event.time_ms >= self._window.from_ms

    def _close(self, member_id: str, partition: Partition, now_ms: int) -> None:
        since_ms = self._since.pop((member_id, partition), None)
        if since_ms is not None:
            self.worked[partition].append((since_ms, max(since_ms, now_ms)))
            self._last[partition] = member_id, now_ms

    def _count_again(self, partition: Partition, now_ms: int) -> None:
        last, committed = self._last.get(partition), self._committed.get(partition)
        if last is not None and committed is not None and now_ms >= self._window.from_ms:
            self.again += max(0, self._progress.at(partition, last[1]) - committed)

    def without_owner(self) -> Iterator[Interval]:
        """The intervals in which a partition had no owner that worked, after its first assignment."""
        from_ms, to_ms = self._window
        for (_, partition), since_ms in self._since.items():
            self.worked[partition].append((since_ms, to_ms))
        for intervals in self.worked.values():
            reached = None
            for start, end in [*sorted(intervals), (to_ms, to_ms)]:
                if reached is not None and min(start, to_ms) > max(reached, from_ms):
                    yield max(reached, from_ms), min(start, to_ms)
                reached = end if reached is None else max(reached, end)


def measure(
    events: Events, progress: Progress, window: Window, *, is_eager: bool, work: Iterable[Work] = ()
) -> Outcome:
    """The measures. `is_eager`: members of a classic group give up everything when they join again."""
    owners = _Owners(progress, window)
    acknowledges = any(isinstance(each, AssignmentAcknowledgedValue) for each in events)
    for now_ms, _, _, item in sorted(_steps(events, work, is_eager=is_eager), key=lambda each: each[:3]):
        if now_ms <= window.to_ms:
            _take(owners, item, now_ms, acknowledges=acknowledges)
    gaps = list(owners.without_owner())
    inside = [each for each in events if window.from_ms <= each.time_ms <= window.to_ms]
    completed = [
        (max(window.from_ms, each.time_ms - each.duration_ms), each.time_ms)
        for each in inside
        if isinstance(each, Rebalanced) and each.duration_ms >= 0
    ]
    return Outcome(
        rebalances=len(starts(events, window)),
        rebalancing_seconds=union_ms(completed) / 1000,
        seconds_without_owner=union_ms(gaps) / 1000,
        partition_seconds_without_owner=sum(end - start for start, end in gaps) / 1000,
        records_read_twice=owners.again,
        records_of_rewound_offsets=sum(
            each.previous_offset - each.committed_offset
            for event in inside
            if isinstance(event, OffsetsRewoundValue) and event.member_id
            for topic in event.topics
            for each in topic.partitions
        ),
        zombie_commits_accepted=owners.zombies,
        zombie_commits_refused=sum(
            isinstance(each, CommitDecidedValue) and bool(each.member_id) and ErrorCode(each.error_code) in FENCES
            for each in inside
        ),
    )


def starts(events: Events, window: Window) -> list[int]:
    """When rebalances began in the window."""
    return [
        each.time_ms
        for each in events
        if isinstance(each, RebalanceStartedValue) and window.from_ms <= each.time_ms <= window.to_ms
    ]


def _steps(events: Events, work: Iterable[Work], *, is_eager: bool) -> Iterator[tuple[int, int, int, Any]]:
    """What happened, with its time, and its place among what happened at that time."""
    for number, event in enumerate(events):
        if isinstance(event, MemberExpiredValue | MemberLeftValue | MemberFencedValue):
            if isinstance(event, MemberExpiredValue) and event.timeout == "session" and event.timeout_ms > 0:
                silent_ms = silent_since(event)
                yield silent_ms, _STOPPED, number, Work(silent_ms, event.member_id, is_working=False)
            yield event.time_ms, _GONE, number, event
        elif isinstance(event, Rebalanced) and is_eager and event.duration_ms >= 0:
            for wait in event.waited_for:
                revoked_ms = event.time_ms - event.duration_ms + event.delay_ms + wait.waited_ms
                yield min(revoked_ms, event.time_ms), _REVOKED, number, wait.member_id
        else:
            yield event.time_ms, _DECIDED, number, event
    for number, each in enumerate(work):
        yield each.time_ms, _CONTINUED if each.is_working else _STOPPED, number, each


def _take(owners: _Owners, item: Any, now_ms: int, *, acknowledges: bool) -> None:
    if isinstance(item, str):
        owners.give(item, set(), now_ms)
    elif isinstance(item, Work):
        (owners.go_on if item.is_working else owners.stop)(item.member_id, now_ms)
    elif isinstance(item, MemberExpiredValue | MemberLeftValue):
        owners.give(item.member_id, set(), now_ms)
    elif isinstance(item, MemberFencedValue):
        if item.error_code == ErrorCode.FENCED_INSTANCE_ID:
            owners.give(item.member_id, set(), now_ms)
    elif isinstance(item, AssignmentDeliveredValue | AssignmentAcknowledgedValue):
        if item.group_kind and acknowledges and isinstance(item, AssignmentDeliveredValue):
            return  # It works on them when it says so.
        owners.give(item.member_id, assigned(item), now_ms)
    elif isinstance(item, CommitDecidedValue):
        owners.commit(item)
