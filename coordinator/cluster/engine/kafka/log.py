"""Reads the partitions of a log: what it says at an offset, its newest snapshot and its pieces, what is new in it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from coordinator.cluster.engine.engine import EngineUnavailable
from coordinator.cluster.engine.kafka.cluster import BrokerError, Partition
from coordinator.cluster.engine.kafka.partitions import Partitions
from coordinator.cluster.engine.kafka.records import (
    PIECE,
    CoverValue,
    Joiner,
    LogState,
    Record,
    Starts,
    cover_value,
    decode,
    part_value,
    state_of,
)
from coordinator.protocol.errors import ErrorCode

WINDOW = 16
"""How many records are read first to learn what a log says at an offset; then eight times as many."""


class Trimmed(EngineUnavailable):
    """What should be read is not there any more, because a snapshot stands for it."""


class LogReader:
    """Reads logs. All methods raise EngineUnavailable."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def records(self, partition: Partition, begin: int, end: int) -> AsyncGenerator[Record, None]:
        """The records from `begin` to `end`. Raises: Trimmed, too."""
        try:
            async with aclosing(self._partitions.read(partition, begin, end)) as pages:
                async for page in pages:
                    for _, found in decode(page):
                        for record in found:
                            if begin <= record.offset < end:
                                yield record
        except BrokerError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Trimmed(f"{partition.topic}: {begin} was trimmed") from None
            raise

    async def state_before(self, partition: Partition, end: int) -> LogState:
        """What the log says before an offset. Reads backwards only as far as it must."""
        window, first = WINDOW, 0
        while True:
            begin = max(end - window, first)
            try:
                state = state_of(
                    [record async for record in self.records(partition, begin, end)], from_the_start=begin == 0
                )
            except Trimmed:
                first = await self._partitions.begin(partition)
                if first >= end:
                    raise
                continue
            if state is not None:
                return state
            if begin == first:
                raise EngineUnavailable(f"{partition.topic}: records were removed that the engine needs")
            window *= 8

    async def cover_at(self, partition: Partition, offset: int) -> CoverValue:
        """The cover at an offset."""
        found = [record async for record in self.records(partition, offset, offset + 1)]
        if not found:
            raise EngineUnavailable(f"{partition.topic}: there is no cover at the offset {offset}")
        return cover_value(found[0])

    async def stored(
        self, pieces: Partition, parts: Partition, cover: CoverValue | None, end: int, starts: Starts
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """The parts of a snapshot, each with the last sequence that it stands for, then the pieces behind it up to an offset.

        `starts` gets the begins of appends. Raises: Trimmed, if something is missing.
        """
        sequence = 0
        if cover is not None:
            sequence = cover.upto
            async with aclosing(self._parts(parts, cover)) as found_parts:
                async for part in found_parts:
                    yield sequence - 1, part
        async with aclosing(self._pieces(pieces, 0 if cover is None else cover.tail, end, starts)) as found_pieces:
            async for number, data in found_pieces:
                if number < sequence:
                    continue
                if number > sequence:
                    raise Trimmed(f"{pieces.topic}: the piece {sequence} is missing")
                sequence += 1
                yield number, data

    async def _pieces(
        self, partition: Partition, begin: int, end: int, starts: Starts
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        joiner = Joiner()
        async with aclosing(self.records(partition, begin, end)) as records:
            async for record in records:
                if record.head.kind != PIECE or not record.counts:
                    continue
                if record.head.number == 0:
                    starts.add(record.head.first, record.offset)
                for piece in joiner.add(record, record.value):
                    yield piece

    async def _parts(self, partition: Partition, cover: CoverValue) -> AsyncGenerator[bytes, None]:
        """The parts of a snapshot. Records of other snapshots are among them, and perhaps copies of its own."""
        wanted, joiner = 0, Joiner()
        async with aclosing(self.records(partition, cover.begin, cover.end)) as records:
            async for record in records:
                value = part_value(record, cover.snapshot)
                for number, data in joiner.add(record, value) if value is not None else ():
                    if number == wanted:
                        wanted += 1
                        yield data
        if wanted != cover.parts:
            raise Trimmed(f"{partition.topic}: only {wanted} parts of {cover.parts} of a snapshot are there")


class _Cursor(NamedTuple):
    """How far the tail of a log was read."""

    sequence: int = 0
    """Of the first piece that was not there yet."""
    offset: int = 0
    covered: int = 0
    """The first sequence for which no snapshot stands."""
    last_sequence: int = 0
    last_offset: int = 0
    """Where the newest append that was read begins: who follows a log may ask for its last piece again, to compare it."""


class Tails:
    """What is new in logs that somebody follows. Each time it reads on from where it has stopped."""

    def __init__(self, partitions: Partitions, reader: LogReader) -> None:
        self._partitions = partitions
        self._reader = reader
        self._cursors: dict[Partition, _Cursor] = {}

    async def read(self, partition: Partition, sequence: int, known_end: int) -> list[tuple[int, bytes]]:
        """The pieces from a sequence on, at least up to the offset `known_end`. Raises: EngineUnavailable."""
        cursor = self._cursors.pop(partition, _Cursor())
        if sequence < cursor.last_sequence:
            cursor = _Cursor()
        if sequence < cursor.sequence or not cursor.offset:
            cursor = cursor._replace(offset=max(cursor.last_offset, await self._partitions.begin(partition)))
        end = max(await self._partitions.end(partition), known_end)
        joiner, began_at = Joiner(), cursor.offset
        found: list[tuple[int, bytes]] = []
        async with aclosing(self._reader.records(partition, cursor.offset, end)) as records:
            async for record in records:
                if record.counts and record.head.kind == PIECE:
                    began_at = record.offset if record.head.number == 0 else began_at
                    if complete := joiner.add(record, record.value):
                        found += complete
                        cursor = _Cursor(complete[-1][0] + 1, 0, cursor.covered, complete[0][0], began_at)
                elif record.counts:
                    cursor = cursor._replace(covered=cover_value(record).upto)
        self._cursors[partition] = cursor._replace(offset=end if joiner.held_from is None else joiner.held_from)
        return [piece for piece in found if piece[0] >= max(sequence, cursor.covered)]
