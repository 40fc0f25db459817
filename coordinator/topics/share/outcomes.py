"""What becomes of acquired records, for metrics and for the event log. Nothing here decides anything.

Acquisitions and acknowledgements are only counted. What a person asks about later is reported as well: locks that ended,
records that were given back with a session, and records that were archived because they were delivered too often.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from coordinator.share_state.share_state import SharePartition
from coordinator.topics.share.in_flight import RecordState, Transition
from coordinator.topics.share.machine import RELEASE, RENEW, Acknowledgement

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
"""The most ranges that a report names."""


class Outcome(StrEnum):
    """What a report is about."""

    LOCK_EXPIRED = "lock_expired"
    ARCHIVED = "archived"
    RELEASED = "released"


class OffsetRange(NamedTuple):
    """Records that were delivered equally often. Both ends are inclusive."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Report(NamedTuple):
    """Records of one member in one share partition."""

    outcome: Outcome
    key: SharePartition
    member_id: str
    cause: str
    records: int
    ranges: Sequence[OffsetRange]
    """Ascending; at most RANGES_MAX of them."""


class Outcomes:
    """The counts of all share partitions of this process since its start, and the way of reports to the event log."""

    __slots__ = (
        "acknowledged", "acquired", "archived", "dead_letters", "locks_expired", "report",
    )  # fmt: skip

    def __init__(self) -> None:
        self.report: Callable[[Report], None] = _nobody_listens
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

    def on_acknowledged(
        self, key: SharePartition, acknowledgements: Iterable[Acknowledgement], done: Sequence[Transition], limit: int
    ) -> None:
        """These transitions of one member are durable. `limit`: share.delivery.count.limit."""
        for each in done:
            self.acknowledged[TYPES[each.kind]] += each.last_offset - each.first_offset + 1
        for acknowledgement in acknowledgements:
            if RENEW in acknowledgement.types:
                size = acknowledgement.last_offset - acknowledgement.first_offset + 1
                renewed = size if len(acknowledgement.types) == 1 else list(acknowledgement.types).count(RENEW)
                self.acknowledged[TYPES[RENEW]] += renewed
        self._archived(key, [each for each in done if each.kind == RELEASE], limit, ARCHIVED_BY_MEMBER)

    def on_released(self, key: SharePartition, done: Sequence[Transition], limit: int, cause: str) -> None:
        """The records of one member were given back with its session."""
        self._report(Outcome.RELEASED, key, done, cause)
        self._archived(key, done, limit, ARCHIVED_BY_SESSION)

    def on_locks_ended(self, key: SharePartition, ended: Sequence[Transition], limit: int, cause: str) -> None:
        """Locks of any members have ended."""
        for member_id in dict.fromkeys(each.member_id for each in ended):
            of_member = [each for each in ended if each.member_id == member_id]
            self.locks_expired += _count(of_member)
            self._report(Outcome.LOCK_EXPIRED, key, of_member, cause)
            self._archived(key, of_member, limit, ARCHIVED_BY_LOCK)

    def _archived(self, key: SharePartition, done: Sequence[Transition], limit: int, cause: str) -> None:
        # Deleted records are archived as well when they are given back, however seldom they were delivered.
        # A dead-letter queue changes nothing about the limit.
        archived = [each for each in done if each.state >= RecordState.ARCHIVING and each.delivery_count >= limit]
        self.archived += _count(archived)
        self._report(Outcome.ARCHIVED, key, archived, cause)

    def _report(self, outcome: Outcome, key: SharePartition, done: Sequence[Transition], cause: str) -> None:
        if done:
            self.report(Report(outcome, key, done[0].member_id, cause, _count(done), _ranges(done)))


def _ranges(done: Sequence[Transition]) -> Sequence[OffsetRange]:
    found: list[OffsetRange] = []
    for each in sorted(done, key=lambda each: each.first_offset):
        last = found[-1] if found else None
        if last is not None and (last.last_offset + 1, last.delivery_count) == (each.first_offset, each.delivery_count):
            found[-1] = last._replace(last_offset=each.last_offset)
        elif len(found) == RANGES_MAX:
            break
        else:
            found.append(OffsetRange(each.first_offset, each.last_offset, each.delivery_count))
    return found


def _count(done: Iterable[Transition]) -> int:
    return sum(each.last_offset - each.first_offset + 1 for each in done)


def _nobody_listens(_report: Report) -> None:
    """Until the server says where reports go."""
