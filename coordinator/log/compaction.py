"""Compaction: keeps the last record of each key in the closed segments of a log (Kafka: `LogCleaner`, `Cleaner`).

Loading the log must yield the same state before and after any cleaning. The rules beyond "the last record of a key wins":

- Records keep their offsets, and batches their first and last offset, as in Kafka. The gaps are legal.
- A tombstone must outlive every older value of its key, or the value would come back. A cleaning always begins at the start
  of the log, so that the older values are dropped in the same pass. Where an older value is kept for another reason, the
  tombstone is kept too.
- Every consumer of the log must have a chance to see a tombstone, so it stays for `delete_retention_ms` after the first
  cleaning that met it. The batch itself stores that time, as in Kafka (KIP-534), so that it survives restarts without a
  file of its own.
- A batch whose records cannot be decoded, because its producer sealed garbage, is left alone and replaces nothing. Records
  without a key stay. A compressed batch stays compressed with the same codec.

Transactions add rules:

- Nothing is cleaned from the first transaction on that is still open, because its outcome is not decided yet.
- Records of aborted transactions are dropped and replace nothing. Records of committed transactions count like any others,
  in the order of their offsets and not of their markers.
- A marker must outlive the records of its transaction, and consumers must have a chance to see it. Like a tombstone it is
  dropped `delete_retention_ms` after the first cleaning that found no record of its transaction. The list of aborted
  transactions (aborted.py) loses an entry no later than the log loses the marker; otherwise consumers would go on filtering
  the later records of the same producer.
- The last batch of a producer stays, if need be without records, while its partition remembers the producer
  (`Log.last_batches`): it holds the sequence number and the epoch with which the producer continues.

A cleaning has three passes. The first scans headers and markers up to the durable end of the log for the outcomes of
transactions (transaction_outcomes.py). The second builds the offset map: the last offset of each key written since the
last cleaning (Kafka: `OffsetMap`). The third rewrites the segments (segment_rewriter.py) and replaces them one group after
another, from the oldest (segment_swap.py). After a crash some segments are cleaned and the later ones are not, which is
safe, because a record is only ever dropped in favour of a later one.

Memory is bounded: the offset map holds at most `KEYS_MAX` keys, and the next cleaning continues where it was full.

Work is bounded: a log is cleaned once `min_cleanable_dirty_ratio` of it was written since the last cleaning, so that each
byte is rewritten a constant number of times on average. `clean` is a generator whose steps take a few milliseconds; the
loop runs a step when it has nothing better to do. A thread would be worse: under the interpreter's lock it would take its
milliseconds when it likes, and a simulation could not repeat it. Only syncing a new segment blocks, and it is handed out
to a worker.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

from coordinator.log.batch import CorruptBatch, key_values
from coordinator.log.log import Log
from coordinator.log.reader import read_segments
from coordinator.log.segment import Segment
from coordinator.log.segment_rewriter import CHUNK_BYTES, STEP_RECORDS, KeptKeys, SegmentRewriter, Work, is_readable
from coordinator.log.transaction_outcomes import TransactionOutcomes, find_outcomes

__all__ = ["KEYS_MAX", "Work", "clean", "is_due"]

KEYS_MAX = 500_000
"""Keys in the offset map of one cleaning, which take about a hundred megabytes."""
_RELATIVE_OFFSET_MAX = (1 << 31) - 1


def is_due(log: Log, now_ms: int) -> bool:
    """Whether to clean the log now: its cleanable part is dirty enough, or holds something that has waited too long.

    Mirrors Kafka's `LogCleanerManager.grabFilthiestCompactedLog`. `now_ms` is wall-clock time. Raises OSError, and
    DamagedLog where a segment that was not indexed yet turns out to be damaged.
    """
    segments = _cleanable(log, now_ms)
    dirty = _dirty(log, segments)
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    total_bytes = sum(segment.size_bytes for segment in segments)
    if not dirty_bytes or dirty_bytes >= log.settings.min_cleanable_dirty_ratio * total_bytes:
        return dirty_bytes > 0
    lag_ms = log.settings.max_compaction_lag_ms
    return lag_ms is not None and any(_first_timestamp(segment) < now_ms - lag_ms for segment in dirty)


def _cleanable(log: Log, now_ms: int) -> list[Segment]:
    """The closed segments before the first one that holds a record younger than `min_compaction_lag_ms`."""
    segments, lag_ms = log.segments[:-1], log.settings.min_compaction_lag_ms
    if lag_ms:
        return list(takewhile(lambda segment: _max_timestamp(segment) <= now_ms - lag_ms, segments))
    return segments


def _dirty(log: Log, segments: Sequence[Segment]) -> list[Segment]:
    """The segments with records written since the last cleaning, which may have ended in the middle of a segment."""
    clean_offset = log.checkpoint.offsets.clean_offset
    ends = [segment.base_offset for segment in log.segments[1 : len(segments) + 1]]
    return [segment for segment, end_offset in zip(segments, ends, strict=True) if end_offset > clean_offset]


def _max_timestamp(segment: Segment) -> int:
    _ = segment.index
    return segment.max_timestamp


def _first_timestamp(segment: Segment) -> int:
    _ = segment.index
    return segment.first_timestamp


def clean(log: Log, now_ms: int, keys_max: int = KEYS_MAX) -> Iterator[Work | None]:
    """Cleans the log step by step. If a step yields a function, run it before the next step, in any thread.

    If that function raises, throw its exception into the generator. The generator may end normally, with an exception or
    through `close`; in each case the log is intact, and cleaned up to some segment. It ends early if the log is deleted
    meanwhile. `now_ms` is wall-clock time. Raises OSError and DamagedLog.
    """
    transactions = yield from find_outcomes(log)
    cleanable = _cleanable(log, now_ms)
    segments = transactions.before_open_transaction(log, cleanable)
    if not segments or (len(segments) < len(cleanable) and not _dirty(log, segments)):
        return
    end_offset = log.segments[len(segments)].base_offset
    for segment in segments:
        segment.hold()
    try:
        offset_map: dict[bytes, int] = {}
        map_end_offset = yield from _build_offset_map(log, segments, transactions, offset_map, keys_max)
        if not log.has_segments(segments):
            return
        log.checkpoint.write(dense_offset=max(log.checkpoint.offsets.dense_offset, end_offset))
        yield log.checkpoint.sync
        if not log.has_segments(segments):
            return
        log.disk.sync_folder(log.folder)
        kept_keys = KeptKeys(keys_max)
        for group in _group_by_size(segments, log.settings.segment_bytes):
            if not log.has_segments(group):
                return
            yield from SegmentRewriter(log, group, offset_map, kept_keys, now_ms, transactions, map_end_offset).steps()
        if log.segments:
            log.checkpoint.write(clean_offset=min(end_offset, map_end_offset))
    finally:
        for segment in segments:
            segment.release()


def _build_offset_map(
    log: Log,
    segments: Sequence[Segment],
    transactions: TransactionOutcomes,
    offset_map: dict[bytes, int],
    keys_max: int,
) -> Generator[None, None, int]:
    """Fills the map with the last offset of each key written since the last cleaning; only these replace anything.

    Returns the end of the segments, or the offset at which the map was full.
    """
    count = 0
    dirty = _dirty(log, segments)
    end_offset = log.segments[len(segments)].base_offset
    for buffer, position, header in read_segments(
        dirty, log.checkpoint.offsets.clean_offset, log.dense_from, CHUNK_BYTES
    ):
        if offset_map and len(offset_map) + header.record_count > keys_max:
            return header.base_offset
        if is_readable(header) and not transactions.is_aborted(header):
            with suppress(CorruptBatch):
                offset_map.update(
                    (key, offset) for offset, key, _ in key_values(buffer, position, header) if key is not None
                )
        count += header.record_count
        if count >= STEP_RECORDS:
            count = 0
            yield None
    return end_offset


def _group_by_size(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Groups of neighbouring segments that fit into one segment (Kafka: `Cleaner.groupSegmentsBySize`)."""
    groups: list[list[Segment]] = []
    size_bytes = 0
    for segment in segments:
        size_bytes += segment.size_bytes
        if (
            groups
            and size_bytes <= segment_bytes
            and segment.base_offset - groups[-1][0].base_offset < _RELATIVE_OFFSET_MAX - segment_bytes
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups
