"""A shard's log as consumers see it: a partition of an internal topic that can be read and not written to.

Monitoring tools read `__consumer_offsets`. What they get is what is durable, as from any other partition; who asks for
what is committed gets it up to the first open transaction. The shard has its own idea of transactions, so what its log
says of them is looked up only when somebody wants to know: the first time from the beginning, then what came since.
"""

from collections.abc import Callable, Sequence

from coordinator.log.aborted import Aborted, overlapping
from coordinator.log.batch import CorruptBatch
from coordinator.log.log import DamagedLog, Log
from coordinator.log.segment import Segment
from coordinator.topics.partition import Reader, State
from coordinator.topics.producer_state import ProducerState
from coordinator.topics.producer_walk import WALK_BYTES, Walk
from coordinator.world.worker import RunInWorker

_NEVER_MS = 1 << 62


class InternalPartition:
    """A shard's log as consumers see it: read-only, up to what is durable."""

    __slots__ = (
        "_aborted", "_awaited", "_closed", "_known_to", "_run_in_worker", "_syncs", "index", "log", "producers", "readers",
        "stable_readers",
    )  # fmt: skip

    def __init__(self, index: int, log: Log, run_in_worker: RunInWorker, *, syncs: bool) -> None:
        self.index = index
        self.log = log
        self.readers: dict[Reader, None] = {}
        self.stable_readers: dict[Reader, None] = {}
        self._run_in_worker = run_in_worker
        self._syncs = syncs
        self._awaited: list[Callable[[], None]] = []
        self._forget()

    def _forget(self) -> None:
        self.producers = ProducerState(_NEVER_MS)
        self._aborted: list[Aborted] = []
        self._known_to = 0
        self._closed: Sequence[Segment] = ()
        """The segments that were complete when they were read: others in their place have lost records."""

    @property
    def state(self) -> State:
        return State.ACTIVE

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.synced_offset if self._syncs else self.log.end_offset

    @property
    def producers_known(self) -> bool:
        """Whether `last_stable_offset` may be asked for."""
        closed = self._closed
        return self._known_to >= self.high_watermark and list(self.log.segments[: len(closed)]) == list(closed)

    @property
    def last_stable_offset(self) -> int:
        first_open_offset = self.producers.first_open_offset
        return self._known_to if first_open_offset is None else max(first_open_offset, self.start_offset)

    def aborted_between(self, offset: int, offset_end: int) -> list[Aborted]:
        """As of a log."""
        return overlapping(self._aborted, offset, offset_end)[0]

    def grew(self, now_ms: int) -> None:
        """More of the log became durable."""
        for reader in list(self.readers):
            reader.arrived(1)
        if not self.stable_readers:
            return
        before = self.last_stable_offset

        def known() -> None:
            if self.last_stable_offset > before:
                for reader in list(self.stable_readers):
                    reader.arrived(1)

        self.know_producers(now_ms, known)

    def know_producers(self, now_ms: int, then: Callable[[], None]) -> None:
        """Calls `then` when the transactions up to the high watermark are known, or cannot be."""
        if self.producers_known:
            then()
            return
        self._awaited.append(then)
        if len(self._awaited) > 1:
            return
        if list(self.log.segments[: len(self._closed)]) != list(self._closed):
            self._forget()
        end_offset = self.high_watermark
        walk = Walk(self.log.segments, self._known_to, end_offset, self.producers, now_ms)
        closed = list(self.log.segments[:-1])

        def walked(outcome: BaseException | None) -> None:
            walk.release()
            if outcome is None:
                self.producers = walk.producers
                self._aborted += [entry for _, entry in walk.aborted]
                self._known_to, self._closed = end_offset, closed
            else:
                self._forget()
                if not isinstance(outcome, OSError | DamagedLog | CorruptBatch):
                    raise outcome
            awaited, self._awaited = self._awaited, []
            for waiting in awaited:
                waiting()

        if walk.bytes_left > WALK_BYTES:
            # Meanwhile others look at what is known so far.
            walk.producers = self.producers.copy()
            self._run_in_worker(walk.go, walked)
            return
        try:
            walk.go()
        except (OSError, DamagedLog, CorruptBatch) as error:
            walked(error)
        else:
            walked(None)
