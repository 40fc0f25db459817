"""What becomes of records, for metrics and for the event log. Nothing here decides anything.

Everything is counted. What a person asks about later is always reported: locks that ended, records that were given back with a
session, records that were archived because they were delivered too often, and dead letters. Acquisitions and acknowledgements
are reported to who wants every event: one for each request and share partition, whatever the number of records.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from coordinator.share_state.share_state import SharePartition
from coordinator.topics.share.in_flight import RecordState, Transition
from coordinator.topics.share.machine import RELEASE, RENEW, Acknowledgement, Acquired

TYPES = ("gap", "accept", "release", "reject", "renew")
"""Names of the types of acknowledgements, by number."""
LOCK_EXPIRED = ""
LOCK_ENDED = "an administrator ended the lock"
SESSION_CLOSED = "the member closed its session"
CONNECTION_LOST = "the connection of the session ended"
ARCHIVED_BY_LOCK = "the lock of the last delivery ended"
ARCHIVED_BY_MEMBER = "the member released the last delivery"
ARCHIVED_BY_SESSION = "the session of the last delivery ended"
RANGES_MAX = 100
"""The most ranges of a report; more are in further reports."""


class Outcome(StrEnum):
    """What a report is about."""

    ACQUIRED = "acquired"
    ACKNOWLEDGED = "acknowledged"
    LOCK_EXPIRED = "lock_expired"
    ARCHIVED = "archived"
    RELEASED = "released"
    DEAD_LETTERED = "dead_lettered"


class OffsetRange(NamedTuple):
    """Records that were delivered equally often. Both ends are inclusive."""

    first_offset: int
    last_offset: int
    delivery_count: int
    kind: int
    """Of acknowledged records: the type of the acknowledgement; of others -1."""


class Place(NamedTuple):
    """A share partition between two loads of its state: a lock that is older than the load is gone."""

    key: SharePartition
    loaded_ms: int
    """When it was loaded, by the wall clock, but later than any other load of this process."""


class InQueue(NamedTuple):
    """Where records are in a dead-letter queue, or why they are not."""

    topic: str
    partition: int = -1
    first_offset: int = -1
    reason: str | None = None
    """Why they could not be written."""


class Report(NamedTuple):
    """Records of one member in one share partition; of dead letters the member is not known."""

    outcome: Outcome
    place: Place
    member_id: str
    cause: str
    records: int
    ranges: Sequence[OffsetRange]
    """Ascending; at most RANGES_MAX of them."""
    number: int
    """Grows with each report of this process."""
    queue: InQueue | None = None
    """Of dead letters."""


class Outcomes:
    """The counts of all share partitions of this process since its start, and the way of reports to the event log."""

    __slots__ = (
        "_loaded_ms", "_number", "acknowledged", "acquired", "archived", "dead_letters", "locks_expired", "report",
        "reports_all",
    )  # fmt: skip

    def __init__(self) -> None:
        self.report: Callable[[Report], None] = _nobody_listens
        self.reports_all = False
        """Whether acquisitions and acknowledgements are reported, too."""
        self._loaded_ms = self._number = -1
        self.acquired = 0
        """Records that members got, each as often as it was delivered."""
        self.acknowledged = dict.fromkeys(TYPES, 0)
        """Records by the type of their durable acknowledgement. Renewed locks count as well."""
        self.locks_expired = 0
        """Records whose lock ended."""
        self.archived = 0
        """Records that were archived because of share.delivery.count.limit."""
        self.dead_letters = {"written": 0, "failed": 0}
        """Records for dead-letter queues: those that were written, and those that could not be."""

    def loaded(self, key: SharePartition, wall_ms: int) -> Place:
        """A leader has loaded the state of a share partition."""
        self._loaded_ms = max(wall_ms, self._loaded_ms + 1)
        return Place(key, self._loaded_ms)

    def on_acquired(self, place: Place, member_id: str, acquired: Sequence[Acquired]) -> None:
        """A member has acquired records."""
        self.acquired += sum(each.last_offset - each.first_offset + 1 for each in acquired)
        if self.reports_all:
            self._send(Outcome.ACQUIRED, place, member_id, "", [OffsetRange(*each, -1) for each in acquired])

    def on_acknowledged(
        self, place: Place, acknowledgements: Iterable[Acknowledgement], done: Sequence[Transition], limit: int
    ) -> None:
        """These transitions of one member are durable. `limit`: share.delivery.count.limit."""
        for each in done:
            self.acknowledged[TYPES[each.kind]] += each.last_offset - each.first_offset + 1
        for acknowledgement in acknowledgements:
            if RENEW in acknowledgement.types:
                size = acknowledgement.last_offset - acknowledgement.first_offset + 1
                renewed = size if len(acknowledgement.types) == 1 else list(acknowledgement.types).count(RENEW)
                self.acknowledged[TYPES[RENEW]] += renewed
        if self.reports_all and done:
            self._send(Outcome.ACKNOWLEDGED, place, done[0].member_id, "", _ranges(done, with_kind=True))
        self._archived(place, [each for each in done if each.kind == RELEASE], limit, ARCHIVED_BY_MEMBER)

    def on_released(self, place: Place, done: Sequence[Transition], limit: int, cause: str) -> None:
        """The records of one member were given back with its session."""
        self._report(Outcome.RELEASED, place, done, cause)
        self._archived(place, done, limit, ARCHIVED_BY_SESSION)

    def on_locks_ended(self, place: Place, ended: Sequence[Transition], limit: int, cause: str) -> None:
        """Locks of any members have ended."""
        for member_id in dict.fromkeys(each.member_id for each in ended):
            of_member = [each for each in ended if each.member_id == member_id]
            self.locks_expired += _count(of_member)
            self._report(Outcome.LOCK_EXPIRED, place, of_member, cause)
            self._archived(place, of_member, limit, ARCHIVED_BY_LOCK)

    def on_dead(self, place: Place, records: OffsetRange, cause: str, queue: InQueue) -> None:
        """Dead letters are durable in their queue, or could not be written."""
        size = records.last_offset - records.first_offset + 1
        self.dead_letters["written" if queue.reason is None else "failed"] += size
        self._send(Outcome.DEAD_LETTERED, place, "", cause, [records], queue)

    def _archived(self, place: Place, done: Sequence[Transition], limit: int, cause: str) -> None:
        # Deleted records are archived as well when they are given back, however seldom they were delivered.
        # A dead-letter queue changes nothing about the limit.
        archived = [each for each in done if each.state >= RecordState.ARCHIVING and each.delivery_count >= limit]
        self.archived += _count(archived)
        self._report(Outcome.ARCHIVED, place, archived, cause)

    def _report(self, outcome: Outcome, place: Place, done: Sequence[Transition], cause: str) -> None:
        if done:
            self._send(outcome, place, done[0].member_id, cause, _ranges(done, with_kind=False))

    def _send(
        self,
        outcome: Outcome,
        place: Place,
        member_id: str,
        cause: str,
        ranges: Sequence[OffsetRange],
        queue: InQueue | None = None,
    ) -> None:
        for begin in range(0, len(ranges), RANGES_MAX):
            part = ranges[begin : begin + RANGES_MAX]
            records = sum(each.last_offset - each.first_offset + 1 for each in part)
            self._number += 1
            self.report(Report(outcome, place, member_id, cause, records, part, self._number, queue))


def _ranges(done: Sequence[Transition], *, with_kind: bool) -> Sequence[OffsetRange]:
    found: list[OffsetRange] = []
    for each in sorted(done, key=lambda each: each.first_offset):
        range_ = OffsetRange(each.first_offset, each.last_offset, each.delivery_count, each.kind if with_kind else -1)
        if found and (found[-1].last_offset + 1, *found[-1][2:]) == (range_.first_offset, *range_[2:]):
            found[-1] = found[-1]._replace(last_offset=range_.last_offset)
        else:
            found.append(range_)
    return found


def _count(done: Iterable[Transition]) -> int:
    return sum(each.last_offset - each.first_offset + 1 for each in done)


def _nobody_listens(_report: Report) -> None:
    """Until the server says where reports go."""
