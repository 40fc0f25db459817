"""Rebuilds a state machine from its log (Kafka's CoordinatorLoaderImpl).

Batches are replayed in the order in which they were written, by the same calls that the shard made when it wrote them: for
plain records, for records of an open transaction, and for the marker that ends one. The state decides what the records of a
transaction mean before and after its end (groups/offsets/pending.py), so that a restart cannot see it differently. A log that
is taken over from a Kafka cluster may have open transactions, which are taken over with it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from coordinator.log.batch import TRANSACTIONAL, BatchHeader, key_values
from coordinator.log.end_transaction_marker import read_end_transaction
from coordinator.log.log import Log
from coordinator.protocol.codec import DecodeError
from coordinator.runtime.result import Marker, Producer, Record, Result, TimerKey
from coordinator.runtime.serde import Serde, UnknownRecordVersion

_Records = list[tuple[int, bytes | None, bytes | None]]
SLICE_RECORDS = 2_000
"""About ten milliseconds of a load."""


class StateMachine(Protocol):
    """The state of a shard (groups/machine.py, transactions/state.py)."""

    def replay(self, record: Record) -> None: ...
    def loaded(self, now_ms: int) -> Result: ...
    def fire(self, key: TimerKey, now_ms: int) -> Result: ...
    def scope_of(self, request: Any) -> str | None:
        """The part of the soft state (a group id) that the operation of this request may change; None: no part."""

    def scope_of_timer(self, key: TimerKey) -> str | None:
        """The part of the soft state that a timer may change; None if it may change more than one."""

    def restore(self, scope: str | None, now_ms: int) -> Result | None:
        """Undoes what a failed operation may have done to this part of the soft state; None if that takes a load."""


BulkReplayers = Callable[[Any, Serde], Mapping[bytes, Callable[[bytes, bytes | None], None]]]
"""`bulk_replayers(state, serde)`, called once per load: the first two bytes of a key (the record type) -> function that replays
the key and the value of such a record, in place of `state.replay(serde.decode(key, value))`."""


class TransactionalState(StateMachine, Protocol):
    """A state machine whose log takes part in transactions: its results can have a `producer` or a `marker`."""

    def replay_pending(self, record: Record, producer: Producer) -> None: ...
    def replay_marker(self, marker: Marker) -> None: ...


@dataclass(slots=True)
class Loaded:
    """The numbers of records that a load read."""

    records: int = 0
    records_skipped: int = 0
    """Records of an unknown type, which Kafka skips too."""
    offset: int = 0
    """Base offset of the batch that was read last."""


def load(
    log: Log,
    serde: Serde,
    state: StateMachine,
    bulk_replayers: BulkReplayers | None = None,
    loaded: Loaded | None = None,
) -> Loaded:
    """Replays the whole log, and returns the counts, which are in `loaded` meanwhile. Raises as `load_in_slices`."""
    loaded = Loaded() if loaded is None else loaded
    for _ in load_in_slices(log, serde, state, loaded, bulk_replayers):
        pass
    return loaded


def load_in_slices(
    log: Log, serde: Serde, state: StateMachine, loaded: Loaded, bulk_replayers: BulkReplayers | None = None
) -> Iterator[None]:
    """Replays the whole log, and pauses after about every `SLICE_RECORDS` records. Counts in `loaded`.

    The log must not grow meanwhile; its segments may be compacted. Raises DamagedLog; DecodeError or UnknownRecordVersion,
    which name the folder and the batch.
    """
    try:
        yield from _replay_batches(log, serde, state, bulk_replayers, loaded)
    except (DecodeError, UnknownRecordVersion) as error:
        raise type(error)(f"{log.folder}: a record of the batch at offset {loaded.offset}: {error}") from error


def _replay_batches(
    log: Log, serde: Serde, state: StateMachine, bulk_replayers: BulkReplayers | None, loaded: Loaded
) -> Iterator[None]:
    replayer = BatchReplayer(serde, state, loaded, bulk_replayers)
    pause_at = SLICE_RECORDS
    for buffer, position, header in log.batches():
        if loaded.records >= pause_at:
            pause_at = loaded.records + SLICE_RECORDS
            yield
        replayer.replay(buffer, position, header)


class BatchReplayer:
    """Replays batches of one log into a state, in their order. Counts in `loaded`."""

    __slots__ = ("_loaded", "_replayers", "_selects", "_serde", "_state")

    def __init__(
        self,
        serde: Serde,
        state: StateMachine,
        loaded: Loaded,
        bulk_replayers: BulkReplayers | None = None,
        selects: Callable[[int, bytes | None], bool] | None = None,
    ) -> None:
        """`selects(offset, key)`: whether to replay a record; the key of a transaction's marker is None."""
        self._selects = selects
        self._serde = serde
        self._state = state
        self._loaded = loaded
        self._replayers = {} if bulk_replayers is None else bulk_replayers(state, serde)

    def replay(self, buffer: bytes, position: int, header: BatchHeader) -> None:
        """Replays the batch at a position. Raises CorruptBatch, UnsupportedCompression, DecodeError, UnknownRecordVersion."""
        loaded = self._loaded
        loaded.offset = header.base_offset
        records = key_values(buffer, position, header)
        if self._selects is not None:
            selects, is_control = self._selects, header.is_control
            records = [each for each in records if selects(each[0], None if is_control else each[1])]
        loaded.records += len(records)
        if header.is_control:
            self._replay_control(records, Producer(header.producer_id, header.producer_epoch))
        elif header.attributes & TRANSACTIONAL:
            self._replay_pending(records, Producer(header.producer_id, header.producer_epoch))
        else:
            self._replay_plain(records)

    def _replay_control(self, records: _Records, producer: Producer) -> None:
        state = cast(TransactionalState, self._state)
        for _, key, value in records:
            end = read_end_transaction(key, value)
            if end is not None:
                commit, coordinator_epoch = end
                state.replay_marker(Marker(*producer, commit, coordinator_epoch))

    def _replay_pending(self, records: _Records, producer: Producer) -> None:
        state, decode = cast(TransactionalState, self._state), self._serde.decode
        for _, key, value in records:
            record = None if key is None else decode(key, value)
            if record is None:
                self._loaded.records_skipped += 1
            else:
                state.replay_pending(record, producer)

    def _replay_plain(self, records: _Records) -> None:
        decode, replay, replayers = self._serde.decode, self._state.replay, self._replayers
        for _, key, value in records:
            if key is None:
                self._loaded.records_skipped += 1
                continue
            bulk_replay = replayers.get(key[:2])
            if bulk_replay is not None:
                bulk_replay(key, value)
                continue
            record = decode(key, value)
            if record is None:
                self._loaded.records_skipped += 1
            else:
                replay(record)
