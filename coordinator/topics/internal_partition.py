"""A shard's log as consumers see it: a partition of an internal topic, which can be read but not written to.

Monitoring tools read `__consumer_offsets`. They get durable records, as from any other partition; readers of committed records
get it up to the first open transaction. The shard has its own view of transactions, so the log is read for them only when
somebody asks: the first time from the beginning, later from where the last read ended.
"""

from collections.abc import Callable, Sequence

from coordinator.log.aborted import Aborted, overlapping
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.segment import Segment
from coordinator.topics.leader_epochs import FROM_THE_START
from coordinator.topics.partition import Reader, State
from coordinator.topics.producer_state import ProducerState
from coordinator.topics.producer_walk import Walk
from coordinator.world.threads import RunInThread

_NEVER_MS = 1 << 62


class InternalPartition:
    """A shard's log as consumers see it: read-only, and only durable records."""

    __slots__ = (
        "_aborted", "_closed_segments", "_loaded_to", "_run_in_thread", "_waiting", "epochs", "index", "log", "producers",
        "readers", "stable_readers",
    )  # fmt: skip

    def __init__(self, index: int, log: JournaledLog, run_in_thread: RunInThread) -> None:
        self.index = index
        self.log = log
        self.epochs = FROM_THE_START
        self.readers: dict[Reader, None] = {}
        self.stable_readers: dict[Reader, None] = {}
        self._run_in_thread = run_in_thread
        self._waiting: list[Callable[[], None]] = []
        self._forget()

    def _forget(self) -> None:
        self.producers = ProducerState(_NEVER_MS)
        self._aborted: list[Aborted] = []
        self._loaded_to = 0
        self._closed_segments: Sequence[Segment] = ()
        """The segments that were closed when they were read. Others in their place were compacted and lack records."""

    @property
    def state(self) -> State:
        return State.ACTIVE

    @property
    def is_offline(self) -> bool:
        """Never: with a damaged log the server does not start."""
        return False

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.durable_offset

    @property
    def producers_loaded(self) -> bool:
        """Whether `last_stable_offset` is valid."""
        return self._loaded_to >= self.high_watermark and not self._segments_changed

    @property
    def _segments_changed(self) -> bool:
        closed = self._closed_segments
        return list(self.log.segments[: len(closed)]) != list(closed)

    @property
    def last_stable_offset(self) -> int:
        first_open_offset = self.producers.first_open_offset
        return self._loaded_to if first_open_offset is None else max(first_open_offset, self.start_offset)

    def aborted_between(self, offset: int, offset_end: int) -> list[Aborted]:
        """The aborted transactions that a reader of these offsets must skip."""
        return overlapping(self._aborted, offset, offset_end)[0]

    def on_durable(self, now_ms: int) -> None:
        """More of the log is durable: notifies the readers."""
        for reader in list(self.readers):
            reader.notify(1)
        if not self.stable_readers:
            return
        before = self.last_stable_offset

        def on_loaded() -> None:
            if self.last_stable_offset > before:
                for reader in list(self.stable_readers):
                    reader.notify(1)

        self.load_producers(now_ms, on_loaded)

    def load_producers(self, now_ms: int, then: Callable[[], None]) -> None:
        """Calls `then` when the transactions up to the high watermark are loaded, or cannot be."""
        if self.producers_loaded:
            then()
            return
        self._waiting.append(then)
        if len(self._waiting) > 1:
            return
        if self._segments_changed:
            self._forget()
        end_offset = self.high_watermark
        walk = Walk(self.log.segments, self._loaded_to, end_offset, self.producers, now_ms)
        closed_segments = list(self.log.segments[:-1])

        def on_walked(error: Exception | None) -> None:
            if error is None:
                self.producers = walk.producers
                self._aborted += [entry for _, entry in walk.aborted]
                self._loaded_to, self._closed_segments = end_offset, closed_segments
            else:
                self._forget()
            waiting, self._waiting = self._waiting, []
            for go_on in waiting:
                go_on()

        if walk.is_long:
            # Others read the present state meanwhile.
            walk.producers = self.producers.copy()
        walk.run(self._run_in_thread, on_walked)
