"""Rebuilds a state machine from its log.

Records are replayed in the order they were written, with one exception. A log taken over from Kafka may hold offsets that were
committed in a transaction (TxnOffsetCommit): such a batch counts only once its producer's commit marker has been read, and is
forgotten when the marker says abort, or when none follows. Between the two, a plain commit of the same key wins, because
it is the newer record (Kafka's OffsetMetadataManager decides by log offset too).
"""

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.log.batch import key_values
from coordinator.log.log import Log
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde

_COMMIT = b"\0\1"
"""How a commit marker's key ends: int16 version, then int16 type."""

_Pending = dict[bytes, bytes | None]


@dataclass(slots=True)
class Loaded:
    """What a load read."""

    records: int = 0
    records_skipped: int = 0
    """Of a type this server does not know; Kafka skips them too."""
    transactions_open: int = 0
    """Transactions without a marker: their records are not applied."""


def load(log: Log, serde: Serde, replay: Callable[[Record], None]) -> Loaded:
    """Replays the whole log. Raises DamagedLog, DecodeError or UnknownRecordVersion: what is not understood is not served."""
    loaded = Loaded()
    decode = serde.decode
    pending: dict[int, _Pending] = {}

    def take(key: bytes | None, value: bytes | None) -> None:
        record = None if key is None else decode(key, value)
        if record is None:
            loaded.records_skipped += 1
        else:
            replay(record)

    for buffer, position, header in log.batches():
        records = key_values(buffer, position, header)
        loaded.records += len(records)
        if header.is_control:
            _, key, _ = records[0]
            kept = pending.pop(header.producer_id, {})
            if key is not None and key[2:4] == _COMMIT:
                for pending_key, pending_value in kept.items():
                    take(pending_key, pending_value)
        elif header.is_transactional:
            mine = pending.setdefault(header.producer_id, {})
            for _, key, value in records:
                if key is not None:
                    mine[key] = value
        else:
            for _, key, value in records:
                take(key, value)
                if pending and key is not None:
                    for kept in pending.values():
                        kept.pop(key, None)
    loaded.transactions_open = len(pending)
    return loaded
