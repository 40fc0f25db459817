"""Rewriting closed segments without the records that compaction drops."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from coordinator.log.aborted import Aborted
from coordinator.log.aborted import write as write_aborted
from coordinator.log.batch import COMPRESSION_NAMES, BatchHeader, CorruptBatch, decode_records, key_values
from coordinator.log.batch_builder import reduce_batch
from coordinator.log.log import Log
from coordinator.log.reader import read_segments
from coordinator.log.segment import Segment, segment_name
from coordinator.log.segment_swap import begin_swap, cleaned_list_name, cleaned_name, finish_swap
from coordinator.log.transaction_outcomes import TransactionOutcomes, marker_commits
from coordinator.world.disk import File

Work = Callable[[], None]
STEP_RECORDS = 1_000
"""Records that one step of a cleaning looks at: a few milliseconds."""
_BATCH_RECORDS = 4
"""What a batch counts for in a step, beside its records."""
CHUNK_BYTES = 256 * 1024
"""Bytes read or written at a time."""


class KeptKeys:
    """The keys that have a value in the part of the log already cleaned; tombstones of these keys must stay.

    A key is hardly ever found here: only if an older value is in a batch that this or an earlier cleaning had to leave
    alone. Remembering the keys costs less memory than the state that the log is loaded into. With more than `keys_max`
    keys, all tombstones stay.
    """

    __slots__ = ("_keys", "_keys_max", "all_keys")

    def __init__(self, keys_max: int) -> None:
        self._keys: set[bytes] = set()
        self._keys_max = keys_max
        self.all_keys = False

    def add(self, key: bytes) -> None:
        """Remembers a key that has a value in the cleaned part of the log."""
        if not self.all_keys:
            self._keys.add(key)
            if len(self._keys) > self._keys_max:
                self.add_all()

    def add_all(self) -> None:
        """From here on every key counts as kept, so that all tombstones stay."""
        self.all_keys = True
        self._keys.clear()

    def __contains__(self, key: bytes) -> bool:
        return self.all_keys or key in self._keys


def is_readable(header: BatchHeader) -> bool:
    """Whether a batch holds data records in a known codec."""
    return not header.is_control and header.compression < len(COMPRESSION_NAMES)


class SegmentRewriter:
    """Writes the remaining records of a group of segments to one new segment, and swaps it in.

    Kafka: `Cleaner.cleanSegments`.


    Nothing is written until something changes: a segment from which nothing is dropped is only read.
    """

    def __init__(
        self,
        log: Log,
        group: Sequence[Segment],
        offset_map: dict[bytes, int],
        kept_keys: KeptKeys,
        now_ms: int,
        transactions: TransactionOutcomes,
        map_end_offset: int,
    ) -> None:
        self.log = log
        self.group = group
        self.offset_map = offset_map
        self.kept_keys = kept_keys
        self.now_ms = now_ms
        self.transactions = transactions
        self.map_end_offset = map_end_offset
        self.last_batches = log.last_batches()
        self.dropped_markers: set[int] = set()
        """Offsets of markers whose transactions have no records left, so that no list needs to name them."""
        self.path = f"{log.folder}/{cleaned_name(group[0].base_offset)}"
        self.end_offset = log.segments[log.segments.index(group[-1]) + 1].base_offset
        self.list_path = f"{log.folder}/{cleaned_list_name(group[0].base_offset, self.end_offset)}"
        self.file: File | None = None
        self.unchanged_bytes = 0
        self.pending: list[bytes] = []
        self.pending_bytes = 0
        self.size_bytes = 0

    def steps(self) -> Iterator[Work | None]:
        """Yields after each step; yields a function where blocking work must be done before the next step.

        Raises OSError and DamagedLog. Removes its files if it does not get to the swap.
        """
        try:
            yield from self._rewrite()
            if self.file is not None:
                self._write_pending()
                yield self.file.sync
                if self.log.has_segments(self.group):
                    yield from self._write_list()
                if self.log.has_segments(self.group):
                    self._swap()
        finally:
            if self.file is not None:
                self.file.close()
                for path in (self.path, self.list_path):
                    with suppress(OSError):
                        self.log.disk.remove(path)

    def _write_list(self) -> Iterator[Work]:
        """Writes the group's list of aborted transactions, if it has any; it is durable before the segments are swapped."""
        entries: list[Aborted] = [entry for segment in self.group for entry in segment.aborted.entries]
        if entries or any(segment.aborted.is_stored for segment in self.group):
            kept = [entry for entry in entries if entry.last_offset not in self.dropped_markers]
            yield partial(write_aborted, self.log.disk, self.list_path, kept)

    def _rewrite(self) -> Iterator[None]:
        if len(self.group) > 1:
            self._begin()
        count = 0
        for buffer, position, header in read_segments(self.group, 0, self.log.dense_from, CHUNK_BYTES):
            before = buffer[position : position + header.size_bytes]
            after = self._retain(before, header)
            if after is not before and self.file is None:
                self._begin()
                yield from self._copy_unchanged()
            if self.file is None:
                self.unchanged_bytes += len(before)
            elif after is not None:
                self.pending.append(after)
                self.pending_bytes += len(after)
                if self.pending_bytes >= CHUNK_BYTES:
                    self._write_pending()
            count += header.record_count + _BATCH_RECORDS
            if count >= STEP_RECORDS:
                count = 0
                yield None

    def _begin(self) -> None:
        with suppress(FileNotFoundError):
            self.log.disk.remove(self.path)
        self.file = self.log.disk.open(self.path)

    def _copy_unchanged(self) -> Iterator[None]:
        while self.size_bytes < self.unchanged_bytes:
            count = min(CHUNK_BYTES, self.unchanged_bytes - self.size_bytes)
            self.pending.append(self.group[0].file.pread(self.size_bytes, count))
            self._write_pending()
            yield None

    def _write_pending(self) -> None:
        assert self.file is not None
        data = b"".join(self.pending)
        if data:
            self.file.append(data)
            self.size_bytes += len(data)
        self.pending, self.pending_bytes = [], 0

    def _retain(self, batch: bytes, header: BatchHeader) -> bytes | None:
        """What remains of a batch: the same object if nothing changes, a smaller batch, or None."""
        try:
            if header.is_control:
                return self._retain_marker(batch, header)
            if header.is_transactional:
                self.transactions.seen_since_marker.add(header.producer_id)
                if self.transactions.is_aborted(header):
                    return self._retain_producer_state(batch, header)
            if is_readable(header):
                return self._retain_records(batch, header)
        except CorruptBatch:
            pass
        # Its keys are unknown, so any key may have a value in it.
        self.kept_keys.add_all()
        return batch

    def _retain_producer_state(self, batch: bytes, header: BatchHeader) -> bytes | None:
        """A batch without records if it is the last one of a remembered producer, otherwise None."""
        last = self.last_batches.get(header.producer_id)
        if last is None or last.offset != header.last_offset:
            return None
        return reduce_batch(header, [], None) if header.record_count else batch

    def _retain_marker(self, batch: bytes, header: BatchHeader) -> bytes | None:
        transactions, producer_id = self.transactions, header.producer_id
        if header.record_count and marker_commits(batch, header) is None:
            return batch
        if producer_id in transactions.seen_since_marker:
            transactions.seen_since_marker.discard(producer_id)
            return batch
        self.dropped_markers.add(header.base_offset)
        horizon = header.delete_horizon_ms
        if horizon is None:
            records = decode_records(batch, 0, header)
            return reduce_batch(header, records, self.now_ms + self.log.settings.delete_retention_ms)
        last = self.last_batches.get(producer_id)
        is_last = last is not None and last.offset is None and last.epoch == header.producer_epoch
        return batch if self.now_ms < horizon or is_last else None

    def _retain_records(self, batch: bytes, header: BatchHeader) -> bytes | None:
        offset_map, kept_keys = self.offset_map, self.kept_keys
        horizon = header.delete_horizon_ms
        # Beyond the end of the offset map an older value of the key may remain.
        expired = horizon is not None and self.now_ms >= horizon and header.next_offset <= self.map_end_offset
        kept_offsets: set[int] = set()
        holds_tombstone = False
        for offset, key, value in key_values(batch, 0, header):
            if key is not None:
                if offset_map.get(key, -1) > offset:
                    continue
                if value is None:
                    if expired and key not in kept_keys:
                        continue
                    holds_tombstone = True
                else:
                    kept_keys.add(key)
            kept_offsets.add(offset)
        if not kept_offsets:
            return self._retain_producer_state(batch, header)
        marks = holds_tombstone and horizon is None
        if len(kept_offsets) == header.record_count and not marks:
            return batch
        if marks:
            horizon = self.now_ms + self.log.settings.delete_retention_ms
        records = [record for record in decode_records(batch, 0, header) if record.offset in kept_offsets]
        return reduce_batch(header, records, horizon)

    def _swap(self) -> None:
        """Replaces the group by the new segment, in one turn of the loop, so that no read or deletion comes between."""
        log, group = self.log, self.group
        assert self.file is not None
        self.file.close()
        self.file = None
        base_offset, end_offset = group[0].base_offset, self.end_offset
        begin_swap(log.disk, log.folder, base_offset, end_offset)
        for segment in group:
            segment.mark_removed()
        finish_swap(log.disk, log.folder, base_offset, end_offset)
        path = f"{log.folder}/{segment_name(base_offset)}"
        new = Segment(log.disk, path, base_offset, self.size_bytes, log.settings.index_interval_bytes)
        log.replace_segments(group, new)
