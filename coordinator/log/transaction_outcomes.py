"""Which transactions of a log were aborted and which are still open, as far as a cleaning must know."""

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence

from coordinator.log.batch import BatchHeader, key_values
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.log import Log
from coordinator.log.segment import Segment


class TransactionOutcomes:
    """The transactions of a log that are open, and those that were aborted (Kafka: `CleanedTransactionMetadata`)."""

    __slots__ = ("_aborted", "_clean_offset", "_open", "_scanned_to", "seen_since_marker")

    def __init__(self, clean_offset: int) -> None:
        self._clean_offset = clean_offset
        self._scanned_to = clean_offset
        self._open: dict[int, int] = {}
        """Producer id -> first offset of its open transaction."""
        self._aborted: dict[int, tuple[list[int], list[int]]] = {}
        """Producer id -> first offsets of its aborted transactions, and the offsets of their markers, both ascending."""
        self.seen_since_marker: set[int] = set()
        """Ids of the producers with transactional records since their last marker, in the rewriting pass under way."""

    def can_continue(self, log: Log) -> bool:
        """Whether the log was not cleaned since the last scan, so that only the new part has to be scanned.

        Also prepares for another rewriting pass.
        """
        self.seen_since_marker.clear()
        return self._clean_offset == log.checkpoint.offsets.clean_offset

    def scan(self, log: Log) -> Iterator[None]:
        """Scans the durable batches written since the last scan. Yields after each window. Raises OSError, DamagedLog."""
        from_offset, end_offset = self._scanned_to, log.synced_offset
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
                            self._observe(segment, at, header)
                    yield None
                left.pop(0)
                segment.release()
        finally:
            for segment, _ in left:
                segment.release()
        self._scanned_to = end_offset

    def _observe(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if header.producer_id < 0:
            # A transactional batch without a producer: no marker will ever end its transaction.
            return
        if not header.is_control:
            self._open.setdefault(header.producer_id, header.base_offset)
            return
        commits = marker_commits(segment.file.pread(position, header.size_bytes), header)
        if commits is None:
            return
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None and not commits:
            firsts, ends = self._aborted.setdefault(header.producer_id, ([], []))
            firsts.append(first_offset)
            ends.append(header.base_offset)

    def before_open_transaction(self, log: Log, segments: Sequence[Segment]) -> list[Segment]:
        """The segments before the first one that holds records of an open transaction."""
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


def find_outcomes(log: Log) -> Generator[None, None, TransactionOutcomes]:
    """The outcomes of the log's transactions. Continues from the last cleaning's scan if that is still valid."""
    known, log.compaction_state = log.compaction_state, None
    transactions = known if isinstance(known, TransactionOutcomes) and known.can_continue(log) else None
    if transactions is None:
        transactions = TransactionOutcomes(log.checkpoint.offsets.clean_offset)
    yield from transactions.scan(log)
    log.compaction_state = transactions
    return transactions


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def marker_commits(batch: bytes, header: BatchHeader) -> bool | None:
    """Whether a control batch commits or aborts; None if it is about something else, or was emptied by a cleaning."""
    for _, key, value in key_values(batch, 0, header):
        end = read_end_transaction(key, value)
        if end is not None:
            return end[0]
    return None
