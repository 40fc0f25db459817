"""One log that the supervisor keeps for the workers: who has it, and what of it is under way."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from coordinator.cluster.engine.engine import Worker
from coordinator.cluster.engine.local.wire import WirePiece
from coordinator.log.batch import BatchHeader, CorruptBatch, read_header
from coordinator.log.batch_builder import empty_batch
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import Log
from coordinator.log.segment import Segment
from coordinator.log.writer import LogWriter, MakeWriter
from coordinator.topics.partition import Reader

PAGE_BYTES = 1 << 20
STARTS_MAX = 1_000
"""How many of the last pieces a tail can name one by one; those before them are one piece."""
STARTS_AT_FIRST = 64
"""How many of them a log has that an earlier run has written."""


class Claimed:
    """A log's newest claim. A log without records has nothing else."""

    def __init__(self) -> None:
        self.epoch = 0
        """0: nobody has claimed it since the supervisor began."""
        self.worker: Worker | None = None
        self.next_sequence = 0
        self.covered = 0


class _UnderWay(NamedTuple):
    end_offset: int
    sequence: int
    done: Callable[[bool], None]


class KeptLog(Claimed):
    """The log in the data folder, written by the pieces of its owner."""

    def __init__(self, log: JournaledLog, make_writer: MakeWriter) -> None:
        super().__init__()
        self.log = log
        self._writer: LogWriter = make_writer(log, self._on_durable, self._on_failure)
        self._under_way: deque[_UnderWay] = deque()
        self._starts: deque[int] = deque()
        """The offsets at which the last pieces begin."""
        self._waiting: list[Callable[[], None]] = []
        self._has_failed = False
        self.readers: dict[Reader, None] = {}
        """They are notified when more is durable."""
        if log.segments and log.end_offset > log.start_offset:
            # Nobody knows the pieces of an earlier run. A reader may want the last kilobytes alone.
            ends = log.segments[-1].index.last_offsets(STARTS_AT_FIRST)
            self._starts.extend(sorted({log.start_offset, *(offset for offset in ends if offset > log.start_offset)}))
            self.next_sequence = len(self._starts)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    # --- appends ------------------------------------------------------------------------------------------------------

    def takes(self, pieces: Iterable[WirePiece]) -> str:
        """Why these pieces may not be appended; empty if they may: they are the owner's, and continue the log."""
        sequence, offset = self.next_sequence, self.log.end_offset
        for piece in pieces:
            if piece.epoch != self.epoch:
                return f"epoch {piece.epoch}, and the newest is {self.epoch}"
            if piece.sequence != sequence:
                return f"sequence {piece.sequence} where {sequence} is next"
            try:
                end_offset = _end_offset(piece.data, offset)
            except CorruptBatch as error:
                return str(error)
            sequence, offset = sequence + 1, end_offset
        return ""

    def append(self, piece: WirePiece, done: Callable[[bool], None]) -> None:
        """Appends a piece that `takes` accepts; `done` learns whether it is durable, or that the claim has ended."""
        start = self.log.end_offset
        end = _end_offset(piece.data, start)
        self._under_way.append(_UnderWay(end, piece.sequence, done))
        self._starts.append(start)
        if len(self._starts) > STARTS_MAX + len(self._under_way):
            self._starts.popleft()
        self.next_sequence = piece.sequence + 1
        self._writer.write(piece.data, end - start)

    def _on_durable(self, end_offset: int) -> None:
        while self._under_way and self._under_way[0].end_offset <= end_offset:
            self._under_way.popleft().done(True)
        for reader in list(self.readers):
            reader.notify(1)
        self._wake()

    def _on_failure(self, _error: OSError) -> None:
        """What the log does not have any more is lost, so the claim has ended: its next piece would leave a gap."""
        lost: list[_UnderWay] = []
        while self._under_way and self._under_way[-1].end_offset > self.log.end_offset:
            lost.append(self._under_way.pop())
            self._starts.pop()
            self.next_sequence = lost[-1].sequence
        self._has_failed = bool(lost)
        for each in lost:
            each.done(False)
        self._wake()

    def take_failure(self) -> bool:
        """Whether a write has failed since the last call, so that the claim must end."""
        has_failed, self._has_failed = self._has_failed, False
        return has_failed

    def when_idle(self, call: Callable[[], None]) -> None:
        """Calls back when nothing is under way; at once if that is so."""
        if self.is_idle:
            call()
        else:
            self._waiting.append(call)

    def _wake(self) -> None:
        if self.is_idle:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self) -> Iterator[tuple[int, bytes]]:
        """The durable pieces, of which the oldest are one, and their sequences. Raises OSError, DamagedLog."""
        before, starts = self._first_sequence - 1, list(self._starts)
        end_offset, next_offset = self.log.durable_offset, self.log.start_offset
        for count, data in pages(self.log, end_offset, starts):
            next_offset = list(headers(data))[-1].next_offset
            yield before + count, data
        if next_offset < end_offset:
            # Compaction has removed the last batches. Whoever claims the log goes on behind them.
            yield before + bisect_left(starts, end_offset), empty_batch(end_offset - 1)

    def tail(self, sequence: int) -> list[tuple[int, bytes]]:
        """The durable pieces from a sequence on, of which the oldest are one. Raises OSError, DamagedLog."""
        first = self._first_sequence
        if sequence < first:
            return list(self.read())
        starts = list(islice(self._starts, sequence - first, None))
        ends = [*starts[1:], self.log.end_offset]
        return [
            (number, _batches(self.log, start, end))
            for number, (start, end) in enumerate(zip(starts, ends, strict=False), sequence)
            if end <= self.log.durable_offset
        ]

    def remove_before(self, sequence: int) -> None:
        """Removes the pieces before one that can be distinguished from them. Raises OSError."""
        count = sequence - self._first_sequence
        if 0 < count < len(self._starts):
            self.log.truncate_before(self._starts[count])
            for _ in range(count):
                self._starts.popleft()

    def begin_at(self, offset: int) -> None:
        """Removes the batches before an offset, at which a batch begins. Raises OSError."""
        if self.log.start_offset < offset <= self.log.durable_offset:
            self.log.truncate_before(offset)
            while self._starts and self._starts[0] < offset:
                self._starts.popleft()

    @property
    def _first_sequence(self) -> int:
        """Of the first piece that can be distinguished from those before it."""
        return self.next_sequence - len(self._starts)


def _batches(log: Log, start: int, end: int) -> bytes:
    """The batches of one piece, of which compaction leaves few, or an empty one. Raises OSError, DamagedLog."""
    found, offset = b"", max(start, log.start_offset)
    while offset < end and (part := log.read(offset, PAGE_BYTES, offset_end=end)):
        found += part
        offset = list(headers(part))[-1].next_offset
    return found or empty_batch(end - 1)


def _end_offset(data: bytes, offset: int) -> int:
    """The offset behind the batches of a piece. Raises CorruptBatch unless they are complete and begin at `offset`."""
    if not data:
        raise CorruptBatch("a piece without a batch")
    for header in headers(data):
        if header.base_offset != offset:
            raise CorruptBatch(f"a batch at offset {header.base_offset} where {offset} is next")
        offset = header.next_offset
    return offset


def headers(data: bytes) -> Iterator[BatchHeader]:
    """The header of each batch. Raises CorruptBatch if the last one is not complete; checksums are not verified."""
    position = 0
    while position < len(data):
        header = read_header(data, position)
        position += header.size_bytes
        if position > len(data):
            raise CorruptBatch(f"the batch at offset {header.base_offset} is not complete")
        yield header


def pages(log: Log, end_offset: int, starts: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yields the batches before an offset, whole, even if the log is compacted meanwhile. Raises OSError, DamagedLog.

    A page ends where one of the pieces begins whose `starts` are given, or when it is large. It comes with the number of
    these pieces that have begun.
    """
    segments, kept, start_offset = list(log.segments), list(starts), log.start_offset
    for segment in segments:
        segment.hold()
    try:
        for segment in segments:
            for count, begin, end in _cuts(segment, start_offset, end_offset, kept):
                yield count, segment.file.pread(begin, end - begin)
    finally:
        for segment in segments:
            segment.release()
            segment.close_if_unheld()


def _cuts(
    segment: Segment, start_offset: int, end_offset: int, starts: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """For each page of a segment: the number of pieces that have begun, its begin and its end."""
    begin = end = count = 0
    for position, header in segment.walk(0):
        if header.next_offset <= start_offset:
            begin = end = position + header.size_bytes
            continue
        if header.base_offset >= end_offset:
            break
        begun = bisect_right(starts, header.base_offset, count)
        if end > begin and (begun > count or end - begin >= PAGE_BYTES):
            yield count, begin, end
            begin = end
        count, end = begun, position + header.size_bytes
    if end > begin:
        yield count, begin, end
