"""Compaction: of the closed segments of a log, keep the last record of each key, so that a load reads what matters.

What a load yields must not change, from any point, whatever is cleaned. The rules for that, beyond the obvious one:

- Offsets stay, and so do the first and last offset of each batch, as Kafka's cleaner keeps them; gaps are legal.
- A tombstone must outlive every older value of its key, or the value comes back. A cleaning always begins at the start
  of the log, so that the older values go in the same pass; where one is kept for another reason, its tombstone stays.
- A tombstone must be seen by whoever reads the log along, so it stays for `delete_retention_ms` after the first
  cleaning that met it. That time is in the batch itself, as Kafka writes it (KIP-534): it outlives restarts and needs
  no file.
- Batches of transactions are left alone, and do not replace anything: whether one counts is decided elsewhere in the
  log. The same goes for batches that cannot be read because they are compressed, and for records without a key.

The segments are replaced in order from the oldest (`swap.py`): after a crash some are cleaned and the later ones not,
which is safe, since a record only ever goes for the sake of a later one.

Memory is bounded: a cleaning looks for what is newer among `KEYS_MAX` keys at most, and the next one goes on from there.
A batch whose records cannot be read is left alone; a producer may have sealed anything.

Work is bounded. A log is cleaned when so much was written since the last time that it makes up half of it
(`min_cleanable_dirty_ratio`): each byte is rewritten a constant number of times on average. And `clean` is a generator
whose steps take a few milliseconds: the loop runs one when it has nothing better to do. Not a thread: under the
interpreter's lock a second thread takes its milliseconds when it likes, not when the loop has them to spare, and a
simulation could not repeat it. What really blocks, the sync of a new segment, is handed out to be run in a worker.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

from coordinator.log.batch import BatchHeader, CorruptBatch, decode_records, key_values, reduce_batch
from coordinator.log.log import Log
from coordinator.log.reader import read_segments
from coordinator.log.segment import Segment, segment_name
from coordinator.log.swap import begin_swap, cleaned_name, finish_swap
from coordinator.world.disk import File

STEP_RECORDS = 1_000
"""Records looked at in one step, a batch counting as a few more: a few milliseconds."""
_BATCH_RECORDS = 4
KEYS_MAX = 500_000
"""Keys that one cleaning remembers; a hundred megabytes or so."""
_CHUNK_BYTES = 256 * 1024
_RELATIVE_OFFSET_MAX = (1 << 31) - 1

Work = Callable[[], None]


def keep_transactions(header: BatchHeader) -> bool:
    """The usual answer to whether a batch is to be left alone; control batches always are."""
    return header.is_transactional


def is_due(log: Log, now_ms: int) -> bool:
    """Whether enough of what may be cleaned was written since the last cleaning, or some of it is too old."""
    segments = _cleanable(log, now_ms)
    dirty = _dirty(log, segments)
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    total_bytes = sum(segment.size_bytes for segment in segments)
    if not dirty_bytes or dirty_bytes >= log.settings.min_cleanable_dirty_ratio * total_bytes:
        return dirty_bytes > 0
    lag_ms = log.settings.max_compaction_lag_ms
    return lag_ms is not None and any(_first_timestamp(segment) < now_ms - lag_ms for segment in dirty)


def _cleanable(log: Log, now_ms: int) -> list[Segment]:
    """The closed segments, up to the first that holds a record younger than it may be."""
    segments, lag_ms = log.segments[:-1], log.settings.min_compaction_lag_ms
    if lag_ms:
        return list(takewhile(lambda segment: _max_timestamp(segment) <= now_ms - lag_ms, segments))
    return segments


def _dirty(log: Log, segments: Sequence[Segment]) -> list[Segment]:
    """Those that hold something written since the last cleaning; it may have ended in the middle of one."""
    clean_offset = log.checkpoint.offsets.clean_offset
    ends = [segment.base_offset for segment in log.segments[1 : len(segments) + 1]]
    return [segment for segment, end_offset in zip(segments, ends, strict=True) if end_offset > clean_offset]


def _max_timestamp(segment: Segment) -> int:
    _ = segment.index
    return segment.max_timestamp


def _first_timestamp(segment: Segment) -> int:
    _ = segment.index
    return segment.first_timestamp


def clean(
    log: Log, now_ms: int, keep: Callable[[BatchHeader], bool], keys_max: int = KEYS_MAX
) -> Iterator[Work | None]:
    """Cleans what may be cleaned, a step at a time. Where a step yields work, that must be done before the next one.

    The work may be done in another thread; if it raises, throw that into the generator. However it ends, by itself, by
    an error (OSError, DamagedLog) or by `close`, the log is whole, and cleaned up to some segment. It ends early when
    the log is deleted under it.
    """
    segments = _cleanable(log, now_ms)
    if not segments:
        return
    end_offset = log.segments[len(segments)].base_offset
    for segment in segments:
        segment.hold()
    try:
        latest: dict[bytes, int] = {}
        looked_to = yield from _find_latest(log, segments, keep, latest, keys_max)
        if not log.has_segments(segments):
            return
        log.checkpoint.write(dense_offset=max(log.checkpoint.offsets.dense_offset, end_offset))
        yield log.checkpoint.sync
        if not log.has_segments(segments):
            return
        log.disk.sync_folder(log.folder)
        kept_keys = _KeptKeys(keys_max)
        for group in _groups(segments, log.settings.segment_bytes):
            if not log.has_segments(group):
                return
            yield from _Rewriter(log, group, latest, kept_keys, now_ms, keep, looked_to).steps()
        if log.segments:
            log.checkpoint.write(clean_offset=min(end_offset, looked_to))
    finally:
        for segment in segments:
            segment.release()


class _KeptKeys:
    """Keys of which this cleaning left a value behind it: their tombstones must stay.

    Nearly always a tombstone finds its key not here. It does when an older value was in a batch that was to be left
    alone, now or at an earlier cleaning. To remember the keys costs less than the state that the log is loaded into.
    When there are too many to remember every tombstone stays.
    """

    __slots__ = ("_keys", "_keys_max", "all_keys")

    def __init__(self, keys_max: int) -> None:
        self._keys: set[bytes] = set()
        self._keys_max = keys_max
        self.all_keys = False

    def add(self, key: bytes) -> None:
        if not self.all_keys:
            self._keys.add(key)
            if len(self._keys) > self._keys_max:
                self.add_all()

    def add_all(self) -> None:
        self.all_keys = True
        self._keys.clear()

    def __contains__(self, key: bytes) -> bool:
        return self.all_keys or key in self._keys


def _is_readable(header: BatchHeader, keep: Callable[[BatchHeader], bool]) -> bool:
    return not (header.is_control or header.compression or keep(header))


def _find_latest(
    log: Log,
    segments: Sequence[Segment],
    keep: Callable[[BatchHeader], bool],
    latest: dict[bytes, int],
    keys_max: int,
) -> Generator[None, None, int]:
    """Offset of the last record of each key written since the last cleaning: only these can replace anything.

    Returns the offset at which it stopped because there are so many keys, or the end of the segments.
    """
    count = 0
    dirty = _dirty(log, segments)
    end_offset = log.segments[len(segments)].base_offset
    for buffer, position, header in read_segments(
        dirty, log.checkpoint.offsets.clean_offset, log.dense_from, _CHUNK_BYTES
    ):
        if latest and len(latest) + header.record_count > keys_max:
            return header.base_offset
        if _is_readable(header, keep):
            with suppress(CorruptBatch):
                latest.update(
                    (key, offset) for offset, key, _ in key_values(buffer, position, header) if key is not None
                )
        count += header.record_count
        if count >= STEP_RECORDS:
            count = 0
            yield None
    return end_offset


def _groups(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Neighbours that together are no larger than one segment become one."""
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


class _Rewriter:
    """Writes what is left of a group of segments into a new one, and puts that in their place.

    Nothing is written as long as nothing changes: a segment that has nothing to lose is only read.
    """

    def __init__(
        self,
        log: Log,
        group: Sequence[Segment],
        latest: dict[bytes, int],
        kept_keys: _KeptKeys,
        now_ms: int,
        keep: Callable[[BatchHeader], bool],
        looked_to: int,
    ) -> None:
        self.log = log
        self.group = group
        self.latest = latest
        self.kept_keys = kept_keys
        self.now_ms = now_ms
        self.keep = keep
        self.looked_to = looked_to
        self.path = f"{log.folder}/{cleaned_name(group[0].base_offset)}"
        self.file: File | None = None
        self.unchanged_bytes = 0
        self.pending: list[bytes] = []
        self.pending_bytes = 0
        self.size_bytes = 0

    def steps(self) -> Iterator[Work | None]:
        try:
            yield from self._rewrite()
            if self.file is not None:
                self._write_pending()
                yield self.file.sync
                if self.log.has_segments(self.group):
                    self._swap()
        finally:
            if self.file is not None:
                self.file.close()
                with suppress(OSError):
                    self.log.disk.remove(self.path)

    def _rewrite(self) -> Iterator[None]:
        if len(self.group) > 1:
            self._begin()
        count = 0
        for buffer, position, header in read_segments(self.group, 0, self.log.dense_from, _CHUNK_BYTES):
            before = buffer[position : position + header.size_bytes]
            after = self._reduce(before, header)
            if after is not before and self.file is None:
                self._begin()
                yield from self._copy_unchanged()
            if self.file is None:
                self.unchanged_bytes += len(before)
            elif after is not None:
                self.pending.append(after)
                self.pending_bytes += len(after)
                if self.pending_bytes >= _CHUNK_BYTES:
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
            count = min(_CHUNK_BYTES, self.unchanged_bytes - self.size_bytes)
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

    def _reduce(self, batch: bytes, header: BatchHeader) -> bytes | None:
        """What is left of a batch: the very same bytes, fewer, or None."""
        try:
            if _is_readable(header, self.keep):
                return self._reduced(batch, header)
            self._note_kept(batch, header)
        except CorruptBatch:
            self.kept_keys.add_all()
        return batch

    def _reduced(self, batch: bytes, header: BatchHeader) -> bytes | None:
        latest, kept_keys = self.latest, self.kept_keys
        horizon = header.delete_horizon_ms
        # Beyond where this cleaning looked, an older value may still be there.
        expired = horizon is not None and self.now_ms >= horizon and header.next_offset <= self.looked_to
        kept_offsets: set[int] = set()
        holds_tombstone = False
        for offset, key, value in key_values(batch, 0, header):
            if key is not None:
                if latest.get(key, -1) > offset:
                    continue
                if value is None:
                    if expired and key not in kept_keys:
                        continue
                    holds_tombstone = True
                else:
                    kept_keys.add(key)
            kept_offsets.add(offset)
        if not kept_offsets:
            return None
        marks = holds_tombstone and horizon is None
        if len(kept_offsets) == header.record_count and not marks:
            return batch
        if marks:
            horizon = self.now_ms + self.log.settings.delete_retention_ms
        records = [record for record in decode_records(batch, 0, header) if record.offset in kept_offsets]
        return reduce_batch(header, records, horizon)

    def _note_kept(self, batch: bytes, header: BatchHeader) -> None:
        if header.is_control:
            return
        if header.compression:
            self.kept_keys.add_all()
            return
        for _, key, _ in key_values(batch, 0, header):
            if key is not None:
                self.kept_keys.add(key)

    def _swap(self) -> None:
        """Synchronous, and on the loop's side: nothing may be read or deleted in the middle of it."""
        log, group = self.log, self.group
        assert self.file is not None
        self.file.close()
        self.file = None
        base_offset = group[0].base_offset
        end_offset = log.segments[log.segments.index(group[-1]) + 1].base_offset
        begin_swap(log.disk, log.folder, base_offset, end_offset)
        for segment in group:
            segment.retire()
        finish_swap(log.disk, log.folder, base_offset, end_offset)
        path = f"{log.folder}/{segment_name(base_offset)}"
        new = Segment(log.disk, path, base_offset, self.size_bytes, log.settings.index_interval_bytes)
        log.replace_segments(group, new)
