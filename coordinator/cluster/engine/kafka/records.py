"""What an engine over Kafka writes into the partition of a log, and which of its records count.

    claim   a worker takes the log, or releases it. It counts if its epoch is the newest one plus 1, so of all claims of an
            epoch the first one in the log counts
    piece   a part of an append. It counts if it stands at the offset that it names
    cover   a snapshot stands for the beginning of the log. It counts as a piece does

Why that fences: an owner names an offset only when it has accounted for every record before it, and found no newer claim among
them. A record behind a newer claim was named before its owner had read that claim, so it names a lower offset than its own. And
an owner has one batch of a log in flight at a time, so no name depends on a batch whose place is not known.

So whether a piece counts is seen from the piece alone: a copy of it, which an attempt or a network repeats, never counts twice.
Each record that counts has the epoch, the sequence and the place of the newest cover with it, so a reader may begin at any.

An append of a log counts as a whole: when the last record of it counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple, TypeVar

import msgspec

from coordinator.cluster.engine.engine import EngineUnavailable, Worker
from coordinator.log import batch
from coordinator.log.batch import HEADER_BYTES
from coordinator.log.batch_builder import BatchBuilder

T = TypeVar("T")
VERSION = 1
CLAIM, PIECE, COVER, PART = range(1, 5)
NOWHERE = -1
_HEAD = Struct(">BBqqqqqii")
HEAD_BYTES = _HEAD.size
RECORD_BYTES = HEAD_BYTES + 40
"""What a record has beside its value, at most."""


class Head(NamedTuple):
    """The key of a record."""

    kind: int
    epoch: int
    """Of the claim by which it was written, or which it makes."""
    offset: int = NOWHERE
    """Where it must stand to count; claims and parts name no offset."""
    cover: int = NOWHERE
    """The offset of the newest cover."""
    first: int = 0
    """The sequence of the first piece of its append; of a cover: of the next piece."""
    sequence: int = 0
    number: int = 0
    """Of the record in its append; records of the same sequence are one piece."""
    total: int = 1
    """How many records its append has."""

    @property
    def next_sequence(self) -> int:
        """The sequence of the piece behind this record, if nothing else follows that counts."""
        return self.sequence + 1 if self.kind == PIECE and self.number == self.total - 1 else self.first


class Record(NamedTuple):
    """A record as it is in a log."""

    offset: int
    head: Head
    value: bytes

    @property
    def counts(self) -> bool:
        """Whether it is a piece or a cover that counts. Whether a claim does, depends on those before it."""
        return self.head.offset == self.offset


class ClaimValue(msgspec.Struct, frozen=True):
    """What a claim says. Without a worker it is a release."""

    id: str
    """Random, so that a worker recognizes its own."""
    worker: Worker | None


class CoverValue(msgspec.Struct, frozen=True):
    """What a cover says: the snapshot, and where the tail behind it begins."""

    upto: int
    tail: int
    """The offset of a record that counts and is not behind the first piece from `upto` on: the log is trimmed to it."""
    snapshot: str
    begin: int
    end: int
    """The offsets between which its parts are in the partition of the snapshots."""
    parts: int


def encode(records: Iterable[tuple[Head, bytes]], *, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """A batch of records. `producer`: producer id, epoch, base sequence."""
    builder = BatchBuilder()
    builder.add_all([(_HEAD.pack(VERSION, *head), value) for head, value in records])
    producer_id, epoch, sequence = producer
    return builder.build(0, 0, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def decode(records: bytes) -> Iterator[tuple[batch.BatchHeader, list[Record]]]:
    """The batches of a fetched page, and their records. A batch at the end may be cut off, and is left out.

    Raises: EngineUnavailable, if something else stands in the partition.
    """
    for header, found in batches(records):
        yield header, [Record(offset, _head(key), value or b"") for offset, key, value in found]


def batches(records: bytes) -> Iterator[tuple[batch.BatchHeader, list[tuple[int, bytes | None, bytes | None]]]]:
    """The batches of a fetched page, and offset, key and value of their records. Raises: EngineUnavailable."""
    position = 0
    try:
        while len(records) - position >= batch.HEADER_BYTES:
            header = batch.read_header(records, position)
            if position + header.size_bytes > len(records):
                return
            batch.verify(records, position, header)
            yield header, [] if header.is_control else batch.key_values(records, position, header)
            position += header.size_bytes
    except (batch.CorruptBatch, batch.UnsupportedCompression) as error:
        raise EngineUnavailable(f"a batch that cannot be read: {error}") from None


def _head(key: bytes | None) -> Head:
    if key is None or len(key) != HEAD_BYTES or key[0] != VERSION:
        raise EngineUnavailable("the topic has records of something else, or of a newer version")
    return Head(*_HEAD.unpack(key)[1:])


class LogState(NamedTuple):
    """What the records of a log before an offset say."""

    epoch: int = 0
    next_sequence: int = 0
    cover: int = NOWHERE
    claim: ClaimValue | None = None
    """The newest claim, if it is among the records that were read."""

    def after(self, record: Record) -> "LogState":
        """The state behind one more record."""
        head = record.head
        if record.counts:
            cover = record.offset if head.kind == COVER else head.cover
            claim = self.claim if head.epoch == self.epoch else None
            return LogState(head.epoch, head.next_sequence, cover, claim)
        if head.kind == CLAIM and head.epoch == self.epoch + 1:
            return self._replace(epoch=head.epoch, claim=claim_value(record))
        return self


def state_of(records: Sequence[Record], *, from_the_start: bool) -> LogState | None:
    """The state behind these records; None if they do not say it, because what counts is before them.

    `from_the_start`: whether nothing was ever before them.
    """
    anchor = next((number for number in reversed(range(len(records))) if records[number].counts), None)
    if anchor is None and not from_the_start:
        return None
    state = LogState()
    for record in records[anchor or 0 :]:
        state = state.after(record)
    return state


def claim_value(record: Record) -> ClaimValue:
    """Raises: EngineUnavailable."""
    return _decoded(record, ClaimValue)


def cover_value(record: Record) -> CoverValue:
    """Raises: EngineUnavailable."""
    if record.head.kind != COVER:
        raise EngineUnavailable(f"there is no cover at the offset {record.offset}")
    return _decoded(record, CoverValue)


def _decoded(record: Record, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(record.value, type=kind)
    except msgspec.DecodeError as error:
        raise EngineUnavailable(f"the record at the offset {record.offset} cannot be read: {error}") from None


SNAPSHOT_ID_BYTES = 16


def part_value(record: Record, snapshot: str) -> bytes | None:
    """The data of a part of this snapshot; None if the record is not one."""
    identity = bytes.fromhex(snapshot)
    is_part = record.head.kind == PART and record.value[:SNAPSHOT_ID_BYTES] == identity
    return record.value[SNAPSHOT_ID_BYTES:] if is_part else None


class Joiner:
    """Puts what was written in several records together again. Records are given in the order of the log."""

    def __init__(self) -> None:
        self._held: list[tuple[Record, bytes]] = []

    @property
    def held_from(self) -> int | None:
        """The offset of the first record of what is not complete yet."""
        return self._held[0][0].offset if self._held else None

    def add(self, record: Record, value: bytes) -> list[tuple[int, bytes]]:
        """The sequence and data of what is complete with this record."""
        head = record.head
        if head.number == 0:
            self._held.clear()
        if head.number != len(self._held):
            return []
        if head.total == 1:
            return [(head.sequence, value)]
        self._held.append((record, value))
        if head.number < head.total - 1:
            return []
        joined: dict[int, list[bytes]] = {}
        for each, data in self._held:
            joined.setdefault(each.head.sequence, []).append(data)
        self._held.clear()
        return [(sequence, b"".join(values)) for sequence, values in joined.items()]


def divide(values: Sequence[bytes], first: int, bytes_max: int) -> Iterator[list[tuple[int, int, int, bytes]]]:
    """Divides values into batches of at most `bytes_max`: lists of sequence, number, total and data.

    The values have the sequences from `first` on. All of them together are one append.
    """
    room = bytes_max - HEADER_BYTES
    part_bytes = room - RECORD_BYTES
    records = [
        (first + number, value[start : start + part_bytes])
        for number, value in enumerate(values)
        for start in range(0, len(value) or 1, part_bytes)
    ]
    batch_of: list[tuple[int, int, int, bytes]] = []
    left = room
    for index, (sequence, data) in enumerate(records):
        if len(data) + RECORD_BYTES > left:
            yield batch_of
            batch_of, left = [], room
        batch_of.append((sequence, index, len(records), data))
        left -= len(data) + RECORD_BYTES
    yield batch_of


START_EVERY = 100


class Starts:
    """Where some of a log's appends begin: enough to trim behind a snapshot."""

    def __init__(self, sequence: int, offset: int) -> None:
        self._starts = [(sequence, offset)]

    def add(self, sequence: int, offset: int) -> None:
        """An append begins here."""
        if sequence - self._starts[-1][0] >= START_EVERY:
            self._starts.append((sequence, offset))

    def before(self, sequence: int) -> int:
        """The offset of an append that begins at this sequence, or not far before it."""
        return next(offset for start, offset in reversed(self._starts) if start <= sequence)

    def drop_before(self, sequence: int) -> None:
        """Forgets what a snapshot stands for."""
        kept = next(number for number in reversed(range(len(self._starts))) if self._starts[number][0] <= sequence)
        del self._starts[:kept]
