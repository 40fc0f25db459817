"""The control batch that ends a transaction in a log (KIP-98; Kafka: `EndTransactionMarker`).

It holds one record: the key says commit or abort, the value has the epoch of the coordinator that decided.
"""

from struct import Struct

from coordinator.log.batch import CONTROL, TRANSACTIONAL, CorruptBatch
from coordinator.log.batch_builder import BatchBuilder

ABORT_MARKER, COMMIT_MARKER = 0, 1
"""Types of control records; other types are not about transactions."""

_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_NO_SEQUENCE = -1


def end_transaction(
    base_offset: int,
    timestamp_ms: int,
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    leader_epoch: int = 0,
) -> bytes:
    """The control batch that commits or aborts a producer's open transaction. It has no sequence number, as in Kafka."""
    builder = BatchBuilder()
    builder.add(
        _MARKER_KEY.pack(0, COMMIT_MARKER if commit else ABORT_MARKER), _MARKER_VALUE.pack(0, coordinator_epoch)
    )
    return builder.build(
        base_offset,
        timestamp_ms,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=_NO_SEQUENCE,
        attributes=TRANSACTIONAL | CONTROL,
    )


def read_end_transaction(key: bytes | None, value: bytes | None) -> tuple[bool, int] | None:
    """Whether a control record commits, and the coordinator's epoch; None for control records of other types.

    Raises CorruptBatch if the key or the value is too short.
    """
    if key is None or len(key) < _MARKER_KEY.size:
        raise CorruptBatch("a control record without a type")
    kind = _MARKER_KEY.unpack_from(key)[1]
    if kind not in (ABORT_MARKER, COMMIT_MARKER):
        return None
    if value is None or len(value) < _MARKER_VALUE.size:
        raise CorruptBatch("the marker of a transaction without its coordinator's epoch")
    return kind == COMMIT_MARKER, _MARKER_VALUE.unpack_from(value)[1]
