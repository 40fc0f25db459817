"""Reading a log from one end to the other, as a load does: whole segments in large pieces, every checksum verified.

The reader holds the segments that were there when it began, so a cleaning or a deletion that happens between two of its
batches takes nothing from under it: it sees the log of one moment. What is written after it began it does not see.

It is an iterator over batches and not over records, because the loop over the records of a batch is the hot one and is
in `batch.key_values`; an iterator over batches costs nothing beside that, and lets a loader do a part at a time.
"""

from collections.abc import Iterator, Sequence

from coordinator.log.batch import PREFIX_BYTES, BatchHeader, CorruptBatch, next_batch, read_header, verify
from coordinator.log.recovery import DamagedLog
from coordinator.log.segment import Segment

CHUNK_BYTES = 1024 * 1024


def read_segments(
    segments: Sequence[Segment], from_offset: int, dense_from: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[bytes, int, BatchHeader]]:
    """Buffer, position in it and header of each batch that ends at or after `from_offset`, in order.

    Holds the segments from its first step to its last. DamagedLog for whatever is wrong, a gap at or after the offset
    `dense_from` among it.
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
    """CorruptBatch if a batch with this offset may not stand where another one is expected."""
    if base_offset < expected_offset or expected_offset >= dense_from:
        raise CorruptBatch(f"offset {base_offset} where {expected_offset} is next")
