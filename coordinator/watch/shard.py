"""A shard whose log is a partition of the cluster: batches come from there, and nothing is decided or written here.

Its status is LOADING until it has read what the cluster had, and ACTIVE from then on. Its position is that of the
cluster's log. Up to `events_from` records only make the state; from there on they also make events, which the event log keeps.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coordinator.fastpath.bulk_replay import OFFSET_COMMIT_TYPE
from coordinator.groups.machine import GroupMachine
from coordinator.log.batch import BatchHeader, verify, whole_batches
from coordinator.protocol.codec import DecodeError
from coordinator.runtime.event_log import RELOAD
from coordinator.runtime.loader import BatchReplayer, Loaded
from coordinator.runtime.result import Fact, Producer, Result
from coordinator.runtime.serde import Serde, UnknownRecordVersion
from coordinator.runtime.shard import S, Shard, Status
from coordinator.watch.changes import Changes
from coordinator.watch.commits import Commits

Emit = Callable[[Fact, int, int], None]
"""`emit(fact, time_ms, offset)`: what the record at an offset has made known."""


class WatchedShard(Shard[S]):
    """One partition of the cluster's `__consumer_offsets` or `__transaction_state`."""

    next_offset = 0
    """The next offset to fetch."""
    is_known = False
    """Whether `begin` was called: the position is that of the cluster."""

    def load(self) -> int:
        """Nothing is here; the cluster is read once the server runs."""
        self._enter(Status.LOADING, "the cluster's log is read")
        return 0

    def run_internal(self, change: Callable[[S, int], Result]) -> None:
        """The cluster decides, not this server."""

    def covered_offset(self) -> int:
        """The offset of the cluster's log that the event log covers; negative: there are no events yet."""
        events = self.events
        try:
            return -1 if events is None else events.covered_offset()
        except (OSError, ValueError, DecodeError, UnknownRecordVersion):
            return -1  # `EventLog.open` reports it

    def begin(self, start: int, events_from: int) -> None:
        """The log is read from `start` on, with events from `events_from` on."""
        self.state, self.loaded = self._make_state(), Loaded()
        self._enter(Status.LOADING, "the cluster's log is read")
        self.next_offset, self.is_known = start, True
        self._offset_written = self._offset_durable = self._events_from = max(start, events_from)
        self._replayer = BatchReplayer(self._serde, self.state, self.loaded, self._bulk_replayers)
        self._watching: _WatchingReplayer | None = None
        if self.events is not None:
            self.events.open(self._offset_written, RELOAD)  # the cluster was not closed

    def feed(self, data: bytes) -> None:
        """Replays the complete batches. Raises CorruptBatch, DecodeError, UnknownRecordVersion, UnsupportedCompression."""
        for position, header in whole_batches(data, self.next_offset):
            verify(data, position, header)
            self._replay(data, position, header)

    def _replay(self, data: bytes, position: int, header: BatchHeader) -> None:
        if header.next_offset <= self._events_from or self.events is None:
            self._replayer.replay(data, position, header)
        else:
            self._flush_at_end_of_turn()
            self.watching().replay(data, position, header)
        self.next_offset = header.next_offset
        if self.next_offset > self._offset_written:
            self._offset_written = self._offset_durable = self.next_offset
        self._on_durable(self.index)

    def watching(self) -> "_WatchingReplayer":
        """What replays records and derives events."""
        if self._watching is None:
            assert isinstance(self.state, GroupMachine)
            self._watching = _WatchingReplayer(
                self._serde, self.state, self.loaded, self._bulk_replayers, self._make_known
            )
        return self._watching

    def caught_up(self) -> None:
        """Everything that the cluster had was read."""
        if self.status is Status.LOADING:
            if self.events is not None:
                self.watching()
            self._enter(Status.ACTIVE, "")
        if self.watchers:
            self._notify_watchers()

    def fail(self, reason: str) -> None:
        """The log cannot be understood from here on."""
        self._set_status(Status.FAILED, reason)

    def _make_known(self, fact: Fact, time_ms: int, offset: int) -> None:
        if fact.event is not None and self.events is not None:
            self.events.pending.append((fact.event, time_ms, offset, offset + 1))
        if fact.name and self.status is Status.ACTIVE:
            self._on_fact(self.index, fact)


class _WatchingReplayer(BatchReplayer):
    """Replays batches of `__consumer_offsets`, and derives events from what they change."""

    __slots__ = ("_changes", "_commits", "_emit", "_time_ms")

    def __init__(self, serde: Serde, state: GroupMachine, loaded: Loaded, bulk_replayers: Any, emit: Emit) -> None:
        super().__init__(serde, state, loaded, bulk_replayers)
        self._emit = emit
        self._time_ms = 0
        self._changes = Changes(state)
        self._commits = Commits(state)
        self._changes.resume_all()

    def replay(self, buffer: bytes, position: int, header: BatchHeader) -> None:
        self._time_ms = header.max_timestamp
        super().replay(buffer, position, header)

    def _replay_plain(self, records: list[tuple[int, bytes | None, bytes | None]]) -> None:
        replay_offset = self._replayers[OFFSET_COMMIT_TYPE]
        last = 0
        for last, key, value in records:
            if key is not None and value is not None and key[:2] == OFFSET_COMMIT_TYPE:
                self._known(self._commits.take(key, value, None), last)
                replay_offset(key, value)
                continue
            self._known(self._commits.end(), last)
            record = None if key is None else self._serde.decode(key, value)
            if record is None:
                self._loaded.records_skipped += 1
                continue
            for fact, time_ms in self._changes.replay(record, self._time_ms):
                self._emit(fact, time_ms, last)
        self._known(self._commits.end(), last)

    def _replay_pending(self, records: list[tuple[int, bytes | None, bytes | None]], producer: Producer) -> None:
        last = 0
        for last, key, value in records:
            if key is not None and value is not None and key[:2] == OFFSET_COMMIT_TYPE:
                self._known(self._commits.take(key, value, producer), last)
        self._known(self._commits.end(), last)
        super()._replay_pending(records, producer)

    def _known(self, facts: Iterable[Fact], offset: int) -> None:
        for fact in facts:
            self._emit(fact, self._time_ms, offset)
