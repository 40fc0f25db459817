"""Reads a log sequentially, as a load does: in large pieces, with every checksum verified.

The reader holds the segments that existed when it began. It therefore sees the log as it was at that moment, even if
a cleaning or a deletion happens between two batches, and it does not see records written later.

It iterates over batches, not over records. The hot loop over a batch's records is `batch.key_values`; beside it the
iteration over batches costs nothing, and it lets a loader proceed in steps.
"""

from collections.abc import Iterator, Sequence

from coordinator.log.batch import PREFIX_BYTES, BatchHeader, CorruptBatch, next_batch, read_header, verify
from coordinator.log.recovery import DamagedLog
from coordinator.log.segment import Segment

CHUNK_BYTES = 1024 * 1024


def read_segments(
    segments: Sequence[Segment], from_offset: int, dense_from: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """Yields buffer, position in the buffer and header of each batch that ends at or after `from_offset`, in order.

    Holds the segments from the first step to the last. Raises OSError, and DamagedLog for any fault, including a gap at
    or after the offset `dense_from`.
    """
    left = [(segment, segment.size_bytes) for segment in segments]
    for segment in segments:
        segment.hold()
    last_good_offset = -1
    expected = segments[0].base_offset if segments else 0
    try:
        while left:
            segment, size = left[0]
            file, position = segment.file, 0
            if segment.base_offset > expected >= dense_from:
                reason = f"no segment begins at offset {expected}"
                raise DamagedLog(segment.path, 0, last_good_offset, reason)
            expected = segment.base_offset
            while position < size:
                buffer = file.pread(position, min(chunk_bytes, size - position))
                at = 0
                try:
                    while at < len(buffer):
                        usual = next_batch(buffer, at, expected)
                        if usual is not None:
                            last_good_offset = expected + usual.last_offset_delta
                            expected = last_good_offset + 1
                            if expected > from_offset:
                                yield buffer, at, usual
                            at += usual.batch_length + PREFIX_BYTES
                            continue
                        ends_here = position + len(buffer) >= size
                        try:
                            header = read_header(buffer, at)
                        except CorruptBatch:
                            if at and not ends_here:
                                break
                            raise
                        end = at + header.size_bytes
                        if end > len(buffer):
                            if at and not ends_here:
                                break
                            buffer = file.pread(position + at, min(header.size_bytes, size - position - at))
                            position += at
                            at, end = 0, header.size_bytes
                        verify(buffer, at, header)
                        if header.base_offset != expected:
                            check_order(header.base_offset, expected, dense_from)
                        expected = header.base_offset + header.last_offset_delta + 1
                        last_good_offset = expected - 1
                        if expected > from_offset:
                            yield buffer, at, header
                        at = end
                except CorruptBatch as error:
                    raise DamagedLog(segment.path, position + at, last_good_offset, str(error)) from error
                position += at
            left.pop(0)
            segment.release()
            segment.close_if_unheld()
    finally:
        for segment, _ in left:
            segment.release()


def check_order(base_offset: int, expected_offset: int, dense_from: int) -> None:
    """Raises CorruptBatch unless a batch with this base offset may follow: gaps are legal before `dense_from` only."""
    if base_offset < expected_offset or expected_offset >= dense_from:
        raise CorruptBatch(f"offset {base_offset} where {expected_offset} is next")
