"""What producers did in a part of a log, read back from its batches: headers, and the markers whole.

Most of a start needs none of it: a snapshot (producer_snapshot.py) tells all but the last part. It may run in a worker: it
holds its segments, and what it makes is its own until it is over.
"""

from collections.abc import Sequence

from coordinator.log.aborted import Aborted
from coordinator.log.batch import BatchHeader, key_values
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.segment import Segment
from coordinator.topics.producer_state import AppendedBatch, ProducerState, last_sequence

WALK_BYTES = 1024 * 1024
"""So much of a log is walked in one turn of the loop: less than a millisecond."""


class Walk:
    """What producers did from one offset to another. Holds the segments until `release`."""

    def __init__(
        self, segments: Sequence[Segment], offset: int, end_offset: int, producers: ProducerState, now_ms: int
    ) -> None:
        """`producers`: as they were at the first offset; the walk's own until it is over."""
        ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
        self.producers = producers
        self.aborted: list[tuple[Segment, Aborted]] = []
        """Found on the way, with the segments of their markers."""
        self._now_ms = now_ms
        self._offset = offset
        self._end_offset = end_offset
        self._parts: list[tuple[Segment, int, int]] = []
        """Segment, first position, end."""
        for segment, end in zip(segments, ends, strict=False):
            if end > offset:
                # Only the last segment is sure to have its index: to make another's is the walk that is to be avoided.
                start = segment.index.position_of(offset) if segment is segments[-1] else 0
                segment.hold()
                _ = segment.file
                self._parts.append((segment, start, segment.size_bytes))
        self.bytes_left = sum(end - start for _, start, end in self._parts)

    def go(self) -> None:
        """May run in any thread. Raises OSError, DamagedLog, CorruptBatch."""
        for segment, start, end in self._parts:
            position = start
            while position < end:
                for at, header in segment.headers(position):
                    position = at + header.size_bytes
                    if self._offset <= header.base_offset < self._end_offset and header.producer_id >= 0:
                        self._take(segment, at, header)

    def _take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if not header.is_control:
            remember_batch(self.producers, header, header.base_offset, self._now_ms)
            return
        for _, key, value in key_values(segment.file.pread(position, header.size_bytes), 0, header):
            end = read_end_transaction(key, value)
            if end is None:
                continue
            commit, coordinator_epoch = end
            ended = self.producers.end(
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
    """Enters a producer's batch of records, live or read back."""
    last = last_sequence(header.base_sequence, header.last_offset_delta + 1)
    producers.record(
        header.producer_id,
        header.producer_epoch,
        AppendedBatch(header.base_sequence, last, base_offset, header.max_timestamp),
        now_ms,
        transactional=header.is_transactional,
    )
