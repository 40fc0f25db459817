"""The batches of a log in pieces, for a replay."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from coordinator.log.log import Log
from coordinator.log.segment import Segment

PAGE_BYTES = 1 << 20


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
