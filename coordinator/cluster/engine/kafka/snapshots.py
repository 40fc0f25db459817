"""Snapshots of logs: their parts go to a partition of their own, and a cover in the log says that they stand for its beginning.

The cover is written as a piece is, by the claim. So an owner that was fenced cannot replace what a newer one relies on; its
parts stay without a cover, until the next snapshot removes them. Only when the cover counts is anything removed.
"""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import msgspec

from coordinator.cluster.engine.kafka.appends import OwnedLog, Write
from coordinator.cluster.engine.kafka.cluster import Partition
from coordinator.cluster.engine.kafka.partitions import Partitions
from coordinator.cluster.engine.kafka.records import COVER, NOWHERE, PART, CoverValue, Head, divide, encode


async def write_parts(
    partitions: Partitions,
    partition: Partition,
    owned: OwnedLog,
    parts: AsyncIterator[bytes],
    upto: int,
    batch_bytes: int,
) -> CoverValue:
    """Appends the parts of a snapshot; returns what its cover is to say, without the tail. Raises: EngineUnavailable."""
    identity = uuid.uuid4()
    begin = end = await partitions.end(partition)
    written = 0
    async with aclosing(_gathered(parts, batch_bytes // 2)) as groups:
        async for some in groups:
            for batch in _batches(owned.epoch, identity.bytes, some, written, batch_bytes):
                answer = await partitions.write(partition, encode(batch))
                end = answer.offset + len(batch)
            written += len(some)
    return CoverValue(upto, NOWHERE, identity.hex, begin, end, written)


def _batches(
    epoch: int, identity: bytes, parts: Sequence[bytes], first: int, batch_bytes: int
) -> list[list[tuple[Head, bytes]]]:
    return [
        [
            (Head(PART, epoch, first=first, sequence=sequence, number=number, total=total), identity + data)
            for sequence, number, total, data in records
        ]
        for records in divide(parts, first, batch_bytes)
    ]


class CoverWrite(Write):
    """Writes a cover."""

    def __init__(self, owned: OwnedLog, cover: CoverValue) -> None:
        super().__init__(owned, [self._records])
        self.cover = cover

    def _records(self, offset: int) -> list[tuple[Head, bytes]]:
        """The tail begins at an append that counts, or at the cover itself if nothing is behind the snapshot."""
        owned, upto = self.owned, self.cover.upto
        tail = offset if upto == owned.next_sequence else owned.starts.before(upto)
        self.cover = msgspec.structs.replace(self.cover, tail=tail)
        following = owned.next_sequence
        return [(owned.head(COVER, offset, following, following), msgspec.json.encode(self.cover))]


async def _gathered(parts: AsyncIterator[bytes], bytes_min: int) -> AsyncGenerator[list[bytes], None]:
    """Parts in groups of at least this many bytes, except the last."""
    some: list[bytes] = []
    size_bytes = 0
    async for part in parts:
        some.append(part)
        size_bytes += len(part)
        if size_bytes >= bytes_min:
            yield some
            some, size_bytes = [], 0
    if some:
        yield some
