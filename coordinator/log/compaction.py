"""Compaction: of the closed segments of a log, keep the last record of each key, so that a load reads what matters.

What a load yields must not change, from any point, whatever is cleaned. The rules for that, beyond the obvious one:

- Offsets stay, and so do the first and last offset of each batch, as Kafka's cleaner keeps them; gaps are legal.
- A tombstone must outlive every older value of its key, or the value comes back. A cleaning always begins at the start
  of the log, so that the older values go in the same pass; where one is kept for another reason, its tombstone stays.
- A tombstone must be seen by whoever reads the log along, so it stays for `delete_retention_ms` after the first
  cleaning that met it. That time is in the batch itself, as Kafka writes it (KIP-534): it outlives restarts and needs
  no file.
- Batches that cannot be read, because a producer sealed nonsense, are left alone, and do not replace anything. Records without
  a key stay. What was compressed stays so, by the same codec.

Transactions add some:

- Nothing is touched from the first transaction on that is still open: what its records are worth is not decided.
- Records of an aborted transaction count for nothing, and go. Those of a committed one are records like any others, in the
  order of their offsets and not of their markers.
- A marker must outlive the records that it is about, and then be seen by whoever reads the log along: it goes, like a
  tombstone, `delete_retention_ms` after the first cleaning that found none of its records before it. A list of aborted
  transactions (aborted.py) loses an entry no later than the log loses the marker: else a reader would go on leaving out
  what this producer wrote since.
- The last batch of a producer stays, empty if need be, while its partition remembers the producer (`Log.last_batches`):
  it says with which sequence and epoch the producer goes on.

What became of the transactions is found out first, from the headers and markers of what was written since the last cleaning
to the end of what is durable. Before that all is decided, and nothing aborted is left.

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

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile

from coordinator.log.aborted import Aborted
from coordinator.log.aborted import write as write_aborted
from coordinator.log.batch import COMPRESSION_NAMES, BatchHeader, CorruptBatch, decode_records, key_values
from coordinator.log.batch_builder import reduce_batch
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.log import Log
from coordinator.log.reader import read_segments
from coordinator.log.segment import Segment, segment_name
from coordinator.log.segment_swap import begin_swap, cleaned_list_name, cleaned_name, finish_swap
from coordinator.world.disk import File

STEP_RECORDS = 1_000
"""Records looked at in one step, a batch counting as a few more: a few milliseconds."""
_BATCH_RECORDS = 4
KEYS_MAX = 500_000
"""Keys that one cleaning remembers; a hundred megabytes or so."""
_CHUNK_BYTES = 256 * 1024
_RELATIVE_OFFSET_MAX = (1 << 31) - 1

Work = Callable[[], None]


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


def clean(log: Log, now_ms: int, keys_max: int = KEYS_MAX) -> Iterator[Work | None]:
    """Cleans what may be cleaned, a step at a time. Where a step yields work, that must be done before the next one.

    The work may be done in another thread; if it raises, throw that into the generator. However it ends, by itself, by
    an error (OSError, DamagedLog) or by `close`, the log is whole, and cleaned up to some segment. It ends early when
    the log is deleted under it.
    """
    transactions = yield from _find_transactions(log)
    cleanable = _cleanable(log, now_ms)
    segments = transactions.decided(log, cleanable)
    if not segments or (len(segments) < len(cleanable) and not _dirty(log, segments)):
        return
    end_offset = log.segments[len(segments)].base_offset
    for segment in segments:
        segment.hold()
    try:
        latest: dict[bytes, int] = {}
        looked_to = yield from _find_latest(log, segments, transactions, latest, keys_max)
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
            yield from _Rewriter(log, group, latest, kept_keys, now_ms, transactions, looked_to).steps()
        if log.segments:
            log.checkpoint.write(clean_offset=min(end_offset, looked_to))
    finally:
        for segment in segments:
            segment.release()


class _Transactions:
    """What became of the transactions in a log."""

    __slots__ = ("_aborted", "_clean_offset", "_found_to", "_open", "observed")

    def __init__(self, clean_offset: int) -> None:
        self._clean_offset = clean_offset
        self._found_to = clean_offset
        self._open: dict[int, int] = {}
        """Producer -> where its open transaction begins."""
        self._aborted: dict[int, tuple[list[int], list[int]]] = {}
        """Producer -> where its aborted transactions begin and where their markers are, ascending."""
        self.observed: set[int] = set()
        """Producers of which a transaction's records were met since their last marker, in the pass under way."""

    def may_go_on(self, log: Log) -> bool:
        """Whether nothing was cleaned since; then only what is new has to be looked at."""
        self.observed.clear()
        return self._clean_offset == log.checkpoint.offsets.clean_offset

    def find(self, log: Log) -> Iterator[None]:
        """Looks at what was written since the last cleaning, or the last look, and is durable."""
        from_offset, end_offset = self._found_to, log.synced_offset
        segments = log.segments[max(0, bisect_right(log.segments, from_offset, key=_base_offset) - 1) :]
        left = [(segment, segment.size_bytes) for segment in segments]
        for segment in segments:
            segment.hold()
        try:
            while left:
                segment, size = left[0]
                position = segment.index.position_of(from_offset) if segment.base_offset < from_offset else 0
                while position < size:
                    for at, header in segment.headers(position):
                        position = at + header.size_bytes
                        if header.is_transactional and from_offset <= header.base_offset < end_offset:
                            self._take(segment, at, header)
                    yield None
                left.pop(0)
                segment.release()
        finally:
            for segment, _ in left:
                segment.release()
        self._found_to = end_offset

    def _take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if header.producer_id < 0:
            # It calls itself transactional and is nobody's: no marker will come.
            return
        if not header.is_control:
            self._open.setdefault(header.producer_id, header.base_offset)
            return
        commits = _commits(segment.file.pread(position, header.size_bytes), header)
        if commits is None:
            return
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None and not commits:
            firsts, ends = self._aborted.setdefault(header.producer_id, ([], []))
            firsts.append(first_offset)
            ends.append(header.base_offset)

    def decided(self, log: Log, segments: Sequence[Segment]) -> list[Segment]:
        """Those before the first that holds something of an open transaction."""
        if not self._open:
            return list(segments)
        first_offset = min(self._open.values())
        ends = [segment.base_offset for segment in log.segments[1 : len(segments) + 1]]
        return [segment for segment, end in zip(segments, ends, strict=False) if end <= first_offset]

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to an aborted transaction."""
        if not header.is_transactional or header.producer_id not in self._aborted:
            return False
        firsts, ends = self._aborted[header.producer_id]
        at = bisect_right(firsts, header.base_offset) - 1
        return at >= 0 and header.base_offset < ends[at]


def _find_transactions(log: Log) -> Generator[None, None, _Transactions]:
    """Goes on where the last cleaning stopped looking: while a transaction stays open there is nothing else it can do."""
    known, log.cleaning_notes = log.cleaning_notes, None
    transactions = known if isinstance(known, _Transactions) and known.may_go_on(log) else None
    if transactions is None:
        transactions = _Transactions(log.checkpoint.offsets.clean_offset)
    yield from transactions.find(log)
    log.cleaning_notes = transactions
    return transactions


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _commits(batch: bytes, header: BatchHeader) -> bool | None:
    """What a control batch says of a transaction; None if it is not about one, or has been emptied."""
    for _, key, value in key_values(batch, 0, header):
        end = read_end_transaction(key, value)
        if end is not None:
            return end[0]
    return None


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


def _is_readable(header: BatchHeader) -> bool:
    return not header.is_control and header.compression < len(COMPRESSION_NAMES)


def _find_latest(
    log: Log,
    segments: Sequence[Segment],
    transactions: _Transactions,
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
        if _is_readable(header) and not transactions.is_aborted(header):
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
        transactions: _Transactions,
        looked_to: int,
    ) -> None:
        self.log = log
        self.group = group
        self.latest = latest
        self.kept_keys = kept_keys
        self.now_ms = now_ms
        self.transactions = transactions
        self.looked_to = looked_to
        self.last_batches = log.last_batches()
        self.ends_gone: set[int] = set()
        """Offsets of markers whose transactions have no records left, and need be on no list."""
        self.path = f"{log.folder}/{cleaned_name(group[0].base_offset)}"
        self.end_offset = log.segments[log.segments.index(group[-1]) + 1].base_offset
        self.list_path = f"{log.folder}/{cleaned_list_name(group[0].base_offset, self.end_offset)}"
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
        """The aborted transactions of the group, if there are any, durable before the segment takes its place."""
        entries: list[Aborted] = [entry for segment in self.group for entry in segment.aborted.entries]
        if entries or any(segment.aborted.is_stored for segment in self.group):
            kept = [entry for entry in entries if entry.last_offset not in self.ends_gone]
            yield partial(write_aborted, self.log.disk, self.list_path, kept)

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
            if header.is_control:
                return self._reduced_marker(batch, header)
            if header.is_transactional:
                self.transactions.observed.add(header.producer_id)
                if self.transactions.is_aborted(header):
                    return self._emptied(batch, header)
            if _is_readable(header):
                return self._reduced(batch, header)
        except CorruptBatch:
            pass
        # What it holds nobody knows.
        self.kept_keys.add_all()
        return batch

    def _emptied(self, batch: bytes, header: BatchHeader) -> bytes | None:
        """Nothing, or a batch without records that says how far its producer got."""
        last = self.last_batches.get(header.producer_id)
        if last is None or last.offset != header.last_offset:
            return None
        return reduce_batch(header, [], None) if header.record_count else batch

    def _reduced_marker(self, batch: bytes, header: BatchHeader) -> bytes | None:
        transactions, producer_id = self.transactions, header.producer_id
        if header.record_count and _commits(batch, header) is None:
            return batch
        if producer_id in transactions.observed:
            transactions.observed.discard(producer_id)
            return batch
        self.ends_gone.add(header.base_offset)
        horizon = header.delete_horizon_ms
        if horizon is None:
            records = decode_records(batch, 0, header)
            return reduce_batch(header, records, self.now_ms + self.log.settings.delete_retention_ms)
        last = self.last_batches.get(producer_id)
        is_last = last is not None and last.offset is None and last.epoch == header.producer_epoch
        return batch if self.now_ms < horizon or is_last else None

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
            return self._emptied(batch, header)
        marks = holds_tombstone and horizon is None
        if len(kept_offsets) == header.record_count and not marks:
            return batch
        if marks:
            horizon = self.now_ms + self.log.settings.delete_retention_ms
        records = [record for record in decode_records(batch, 0, header) if record.offset in kept_offsets]
        return reduce_batch(header, records, horizon)

    def _swap(self) -> None:
        """Synchronous, and on the loop's side: nothing may be read or deleted in the middle of it."""
        log, group = self.log, self.group
        assert self.file is not None
        self.file.close()
        self.file = None
        base_offset, end_offset = group[0].base_offset, self.end_offset
        begin_swap(log.disk, log.folder, base_offset, end_offset)
        for segment in group:
            segment.retire()
        finish_swap(log.disk, log.folder, base_offset, end_offset)
        path = f"{log.folder}/{segment_name(base_offset)}"
        new = Segment(log.disk, path, base_offset, self.size_bytes, log.settings.index_interval_bytes)
        log.replace_segments(group, new)
