"""Invariants of the event logs: events are true, and gaps are declared.

- I21: every valid event is true. The records of an accepted commit are in the shard's log, from the state offset that the
  event names, and no other event claims them.
- I22: no gap is undeclared. Every offset ever committed is covered by a valid event, or lies in a range for which an
  `EventLogOpened` says that events may be missing, or lies after everything covered while the log reports that it accepts
  no events.
- I24: see epoch_invariants.py.

An event is valid unless a later `EventLogOpened` declares it undone. The check reads the events from the segments and
compares them with every record ever appended to the shard's log, so that compaction does not matter.

At several workers both logs are in the engine. There every event ever appended is checked, whichever worker wrote it, and so
retention does not matter either. While a worker serves the shard, what is undone must be declared in the engine already.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from coordinator.groups.events import EVENT_KEYS
from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.log.batch import CONTROL
from coordinator.log.log import Log
from coordinator.log.segment import Segment
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    CommitDecidedKey,
    CommitDecidedValue,
    EventLogOpenedValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.runtime.event_log import UNKNOWN, EventLog, Status
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde
from coordinator.runtime.shard import Shard
from coordinator.server.composition import Server
from coordinator_lab.simulation.epoch_invariants import check_refusals
from coordinator_lab.simulation.history import OnBroken

_GROUP_RECORDS = ("GroupMetadataKey", "ConsumerGroupMetadataKey", "StreamsGroupMetadataKey")
"""Their tombstones end a group."""
Commit = tuple[str, str, int, int]
"""Group, topic, partition, offset."""
ReadBatches = Callable[[bytes], Iterator[tuple[Any, Sequence[Any]]]]


class EventLogInvariants:
    """Checks the event logs of one server after another, on the same disk or over the same engine."""

    def __init__(
        self,
        read_batches: ReadBatches,
        content_of: Callable[[Log, Segment], bytes],
        appended: Mapping[int, Sequence[Any]],
        broken: OnBroken,
    ) -> None:
        """`appended`: shard -> all records ever appended to its log, indexed by offset."""
        self._read_batches = read_batches
        self._content_of = content_of
        self._appended = appended
        self._broken = broken
        self._state = Serde(Codec.of(None), RECORD_KEYS)
        self._events = Serde(Codec.of(None), EVENT_KEYS)
        self.reported: dict[int, int] = {}
        """Shard -> committed offsets that had a valid event at the last check."""

    def check(self, server: Server) -> set[int]:
        """Checks a running server, and returns the shards that it could check. Must be called between two callbacks."""
        checked = set()
        for shard in server.groups.shards:
            events = shard.events
            if events is None or shard.has_unwritten or events.pending or events.log.failed is not None:
                continue
            log = events.log
            self._check(shard, events, (self._content_of(log, each) for each in log.segments), events.undone_from)
            checked.add(shard.index)
        return checked

    def check_shared(self, shard: Shard[GroupMachine], events: EventLog, pieces: Iterable[bytes]) -> None:
        """Checks the event log of a shard that this worker serves, and of which nothing is under way.

        `pieces`: everything that the engine ever got of it.
        """
        self._check(shard, events, pieces, UNKNOWN)

    def _check(self, shard: Shard[GroupMachine], events: EventLog, contents: Iterable[bytes], undone_from: int) -> None:
        ends: dict[str, list[int]] = {}
        committed = self._committed(shard, ends)
        reported_by: dict[int, int] = {}
        """Offset of a state record -> offset of the event that reports it."""
        declared_gaps: set[int] = set()
        standing, covered = self._standing(self._read(contents), declared_gaps)
        if undone_from != UNKNOWN:  # The log could not declare it yet.
            standing = [each for each in standing if each[0] < undone_from]
        check_refusals(standing, ends, self._broken)
        for offset, key, value in standing:
            for state_offset, commit in enumerate(_accepted(key, value), value.state_offset):
                if committed.get(state_offset) != commit:
                    self._broken(
                        "I21 events are true",
                        f"shard {shard.index}: event {offset} has {commit} at {state_offset}, where there is "
                        f"{committed.get(state_offset)}",
                    )
                if state_offset in reported_by:
                    self._broken(
                        "I21 events are true",
                        f"shard {shard.index}: events {reported_by[state_offset]} and {offset} have {state_offset}",
                    )
                reported_by[state_offset] = offset
        self.reported[shard.index] = len(reported_by)
        if events.status is not Status.ACTIVE or events.lost:
            declared_gaps.update(range(covered, shard.log.end_offset))
        missing = sorted(committed.keys() - reported_by.keys() - declared_gaps)
        if missing:
            self._broken(
                "I22 gaps are declared",
                f"shard {shard.index}: no event has {missing[:10]}; covered up to {covered}, {events.lost} lost",
            )

    def _committed(self, shard: Shard[GroupMachine], ends: dict[str, list[int]]) -> dict[int, Commit]:
        """State offset -> the commit in that record. Adds to `ends` where each group ended or changed its kind."""
        found = {}
        for offset, key, value, _, attributes in self._appended.get(shard.index, ())[: shard.log.end_offset]:
            if key is None or attributes & CONTROL:
                continue
            record = self._state.decode(key, value)
            if record is not None and record.value is None and record.key.NAME in _GROUP_RECORDS:
                ends.setdefault(
                    str(getattr(record.key, "group_id", "") or getattr(record.key, "group", "")), []
                ).append(offset)
            if record is not None and isinstance(record.value, OffsetCommitValue):
                assert isinstance(record.key, OffsetCommitKey)
                name = record.key
                found[offset] = (name.group, name.topic, name.partition, record.value.offset)
        return found

    def _standing(
        self, events: Iterable[tuple[int, Record]], declared_gaps: set[int]
    ) -> tuple[list[tuple[int, CommitDecidedKey, CommitDecidedValue]], int]:
        """The valid commit events, and the state offset up to which events are complete.

        Adds to `declared_gaps` the state offsets whose events may be missing according to the log.
        """
        standing: list[tuple[int, CommitDecidedKey, CommitDecidedValue]] = []
        covered = 0
        for offset, record in events:
            value: Any = record.value
            if isinstance(value, EventLogOpenedValue):
                if value.undone_from_offset >= 0:
                    standing = [each for each in standing if each[0] < value.undone_from_offset]
                declared_gaps.update(range(max(value.covered_state_offset, 0), value.state_offset))
            elif isinstance(value, CommitDecidedValue):
                assert isinstance(record.key, CommitDecidedKey)
                standing.append((offset, record.key, value))
            if value.state_end_offset >= 0:
                covered = value.state_end_offset
        return standing, covered

    def _read(self, contents: Iterable[bytes]) -> Iterator[tuple[int, Record]]:
        for content in contents:
            for _, records in self._read_batches(content):
                for each in records:
                    record = self._events.decode(each.key or b"", each.value)
                    assert record is not None, "an event log contains only events"
                    yield each.offset, record


def _accepted(key: CommitDecidedKey, value: CommitDecidedValue) -> Iterator[Commit]:
    """The accepted partitions of a commit, in the order of their records in the state log."""
    if value.error_code:
        return
    for topic in value.topics:
        for each in topic.partitions:
            if not each.error_code:
                yield key.group, topic.topic_name, each.partition, each.committed_offset
