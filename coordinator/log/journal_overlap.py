"""Whether the segments of a log and the journal agree where both have batches.

They do unless another server, which does not know the journal, has written to the folder of one that was killed: Kafka, or a
version without a journal. It goes on writing at the first batch that the segments lacked, so the last batch that both have
decides.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter

from coordinator.log.batch import BatchHeader

_KEPT_BY_COMPACTION = attrgetter("base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence")


def find_conflict(
    journaled: Iterable[BatchHeader], first_offset: int, active_offset: int, find: Callable[[int], BatchHeader | None]
) -> BatchHeader | None:
    """The batch of the journal that contradicts the segments, or None.

    `journaled`: the last one first. `first_offset`, `active_offset`: where the first and the last segment begin. `find`: the
    first batch that ends behind an offset. Of closed segments, compaction may have dropped records or whole batches.
    """
    for header in journaled:
        offset = header.base_offset
        if offset < first_offset:
            break
        found = find(offset)
        if found is None or (offset < active_offset and found.base_offset >= header.next_offset):
            continue
        if found == header or (offset < active_offset and _is_remainder(found, header)):
            return None
        return header
    return None


def _is_remainder(found: BatchHeader, written: BatchHeader) -> bool:
    """Whether a batch can be what compaction has left of another."""
    is_reduced = found.record_count < written.record_count or found.delete_horizon_ms is not None
    return is_reduced and _KEPT_BY_COMPACTION(found) == _KEPT_BY_COMPACTION(written)


def conflict_reason(header: BatchHeader) -> str:
    """The reason that is reported."""
    return f"the journal has another batch at offset {header.base_offset}: another server has written here"
