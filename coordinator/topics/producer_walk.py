"""Rebuilds the state of producers from a part of a log: from the headers of batches, and the contents of markers.

Usually a start needs little of this, because a snapshot (producer_snapshot.py) covers all but the end of the log. A walk may
run in a thread: it holds its segments, and its producers belong to it alone until it is finished.
"""

from collections.abc import Callable, Sequence

from coordinator.log.aborted import Aborted
from coordinator.log.batch import BatchHeader, CorruptBatch, key_values
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.log import DamagedLog
from coordinator.log.segment import Segment
from coordinator.topics.producer_state import AppendedBatch, ProducerState, last_sequence
from coordinator.world.threads import RunInThread

WALK_BYTES = 1024 * 1024
"""The most of a log that is read in one turn of the loop: it takes less than a millisecond."""


class Walk:
    """Reads the batches from one offset to another. Holds the segments until `run` is finished."""

    def __init__(
        self, segments: Sequence[Segment], offset: int, end_offset: int, producers: ProducerState, now_ms: int
    ) -> None:
        """`producers`: their state at `offset`. It belongs to the walk until that is finished."""
        ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
        self.producers = producers
        self.aborted: list[tuple[Segment, Aborted]] = []
        """The aborted transactions that were found, with the segments of their markers."""
        self._now_ms = now_ms
        self._offset = offset
        self._end_offset = end_offset
        self._parts: list[tuple[Segment, int, int]] = []
        """Segment, first position, end position."""
        for segment, end in zip(segments, ends, strict=False):
            if end > offset:
                # Only the last segment is sure to have its index. Building another one means reading the whole segment.
                start = segment.index.position_of(offset) if segment is segments[-1] else 0
                segment.hold()
                _ = segment.file
                self._parts.append((segment, start, segment.size_bytes))
        self.bytes_left = sum(end - start for _, start, end in self._parts)

    @property
    def is_long(self) -> bool:
        """Whether the walk is too long for the loop, so that `run` leaves it to the worker."""
        return self.bytes_left > WALK_BYTES

    def run(self, run_in_thread: RunInThread, done: Callable[[Exception | None], None]) -> None:
        """Walks, now or in a thread, then calls `done` with None, or with OSError, DamagedLog or CorruptBatch."""

        def finished(outcome: BaseException | None) -> None:
            self.release()
            if outcome is not None and not isinstance(outcome, OSError | DamagedLog | CorruptBatch):
                raise outcome
            done(outcome)

        if self.is_long:
            run_in_thread(self.go, finished)
            return
        try:
            self.go()
        except (OSError, DamagedLog, CorruptBatch) as error:
            finished(error)
        else:
            finished(None)

    def go(self) -> None:
        """Reads the batches; may run in any thread. Raises OSError, DamagedLog, CorruptBatch."""
        for segment, start, end in self._parts:
            position = start
            while position < end:
                for at, header in segment.headers(position):
                    position = at + header.size_bytes
                    if self._offset <= header.base_offset < self._end_offset and header.producer_id >= 0:
                        self._replay(segment, at, header)

    def _replay(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if not header.is_control:
            remember_batch(self.producers, header, header.base_offset, self._now_ms)
            return
        for _, key, value in key_values(segment.file.pread(position, header.size_bytes), 0, header):
            end = read_end_transaction(key, value)
            if end is None:
                continue
            commit, coordinator_epoch = end
            ended = self.producers.end_transaction(
                header.producer_id,
                header.producer_epoch,
                coordinator_epoch,
                header.base_offset,
                header.max_timestamp,
                self._now_ms,
                commit=commit,
            )
            if ended is not None and ended.aborted is not None:
                self.aborted.append((segment, ended.aborted))

    def release(self) -> None:
        for segment, _, _ in self._parts:
            segment.release()


def remember_batch(producers: ProducerState, header: BatchHeader, base_offset: int, now_ms: int) -> None:
    """Updates the producers for a batch of records that was appended, or read back from the log."""
    last = last_sequence(header.base_sequence, header.last_offset_delta + 1)
    producers.append(
        header.producer_id,
        header.producer_epoch,
        AppendedBatch(header.base_sequence, last, base_offset, header.max_timestamp),
        now_ms,
        transactional=header.is_transactional,
    )
