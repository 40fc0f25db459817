"""Finding records by time (Kafka: `UnifiedLog.fetchOffsetByTimestamp`, `LogSegment.findOffsetByTimestamp`).

The index leads to the segment and near the batch; the records of a batch are decoded to find the exact one. Decoding a large
batch takes too long for the event loop, so a search does not decode: it yields the batch, and whoever runs the search sends its
records, from wherever they were decoded. Timestamps are milliseconds since the epoch.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.log.batch import BatchHeader, CorruptBatch, UnsupportedCompression, decode_records
from coordinator.log.record import LogRecord
from coordinator.log.segment import Segment


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    """A record's offset, timestamp (ms) and leader epoch (Kafka: `FileRecords.TimestampAndOffset`)."""

    offset: int
    timestamp: int
    leader_epoch: int


class BatchToDecode(NamedTuple):
    """A batch whose records a search needs."""

    segment: Segment
    position: int
    header: BatchHeader

    def records(self) -> list[LogRecord] | None:
        """The records; None if they cannot be decoded. Raises OSError. May run in any thread that holds the segment."""
        try:
            return decode_records(self.segment.file.pread(self.position, self.header.size_bytes), 0, self.header)
        except (CorruptBatch, UnsupportedCompression):
            return None


Search = Generator[BatchToDecode, list[LogRecord] | None, TimestampOffset | None]
"""A search in progress; it is sent `records()` of each batch. Raises OSError, and DamagedLog for a segment without an index."""


def search_timestamp(segments: Sequence[Segment], start_offset: int, timestamp: int) -> Search:
    """Searches the first record with this timestamp or a later one."""
    for segment in segments:
        index = segment.index
        if segment.max_timestamp >= timestamp:
            found = yield from _search_segment(segment, index.position_of_time(timestamp), start_offset, timestamp)
            if found is not None:
                return found
    return None


def search_latest_timestamp(segments: Sequence[Segment], start_offset: int) -> Search:
    """Searches the first record with the highest timestamp at or after `start_offset`."""
    for segment in segments:
        _ = segment.index
    filled = [segment for segment in segments if segment.size_bytes]
    if not filled:
        return None
    is_partial = filled[0].base_offset < start_offset
    timestamps = [segment.max_timestamp for segment in filled[is_partial:]]
    if is_partial:
        timestamps.append((yield from _latest_in_rest(filled[0], start_offset)))
    return (yield from search_timestamp(segments, start_offset, max(timestamps)))


def _latest_in_rest(segment: Segment, start_offset: int) -> Generator[BatchToDecode, list[LogRecord] | None, int]:
    """The highest timestamp in a segment whose beginning was deleted; -1 if no record is left."""
    latest, position = -1, 0
    while position < segment.size_bytes:
        for at, header in segment.headers(position):
            position = at + header.size_bytes
            if header.base_offset >= start_offset:
                latest = max(latest, header.max_timestamp)
            elif header.next_offset > start_offset:
                found = yield BatchToDecode(segment, at, header)
                left = [record.timestamp for record in found or () if record.offset >= start_offset]
                latest = max([latest, *left]) if found is not None else max(latest, header.max_timestamp)
    return latest


def _search_segment(segment: Segment, position: int, start_offset: int, timestamp: int) -> Search:
    while position < segment.size_bytes:
        for at, header in segment.headers(position):
            position = at + header.size_bytes
            if header.max_timestamp < timestamp or header.next_offset <= start_offset:
                continue
            records = yield BatchToDecode(segment, at, header)
            if records is None:
                # The exact record is unknown; consumers skip records that are too early.
                near = max(header.base_offset, start_offset)
                return TimestampOffset(near, header.max_timestamp, header.leader_epoch)
            for record in records:
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.offset, record.timestamp, header.leader_epoch)
    return None
