"""Writes to logs by a claim, and learns what became of it from the place where it stands.

A batch names the offset where its owner expects it. The leader answers with the offset where it is:

    the same     it counts. The next batch is expected behind it
    higher       somebody else wrote. The owner reads what: a newer claim, then it is over; its own batch at the offset that
                 it named, then an attempt before has done it; else nothing there counts, and the owner writes again, and
                 names the offset behind all that it has read
    lower        the log has lost records, which a cluster with these settings does not do: the outcome is unknown

An attempt without an answer is repeated with the same name, so that of several copies at most one counts.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from coordinator.cluster.engine.engine import EngineUnavailable
from coordinator.cluster.engine.kafka.cluster import RETRY_MAX_S, RETRY_S, BrokerError, Cluster, Partition
from coordinator.cluster.engine.kafka.log import LogReader
from coordinator.cluster.engine.kafka.partitions import Partitions, Written
from coordinator.cluster.engine.kafka.producers import REFUSED, UNLOCKED, Producer, Producers
from coordinator.cluster.engine.kafka.records import NOWHERE, CoverValue, Head, LogState, Record, Starts, encode
from coordinator.protocol.errors import ErrorCode

APPENDS = "appends"
"""The purpose of the connections that have nothing but appends."""
Batch = Callable[[int], list[tuple[Head, bytes]]]
"""The records of a batch whose first one is to stand at this offset."""


class OwnedLog:
    """What an owner knows of its log."""

    __slots__ = (
        "cover",
        "cover_offset",
        "epoch",
        "expected",
        "log",
        "next_sequence",
        "offset",
        "partition",
        "producer",
        "starts",
    )

    def __init__(self, log: str, partition: Partition, state: LogState, offset: int, expected: int) -> None:
        self.log = log
        self.partition = partition
        self.epoch = state.epoch
        self.offset = offset
        """Of its claim."""
        self.expected = expected
        """Everything before it is known, and nothing there is a newer claim."""
        self.next_sequence = state.next_sequence
        self.cover: CoverValue | None = None
        self.cover_offset = state.cover
        self.producer: Producer = UNLOCKED
        self.starts = Starts(0, 0)

    @property
    def covered_upto(self) -> int:
        """The first sequence for which no snapshot stands."""
        return 0 if self.cover is None else self.cover.upto

    def covered(self, offset: int, cover: CoverValue) -> None:
        """A cover is the newest."""
        self.cover, self.cover_offset = cover, offset
        if cover.tail == offset:
            self.starts = Starts(cover.upto, offset)
        else:
            self.starts.drop_before(cover.upto)

    def head(self, kind: int, offset: int, first: int, sequence: int, number: int = 0, total: int = 1) -> Head:
        """The head of a record of this owner."""
        return Head(kind, self.epoch, offset, self.cover_offset, first, sequence, number, total)


class Write:
    """Batches of one log, one after the other."""

    def __init__(self, owned: OwnedLog, batches: Sequence[Batch]) -> None:
        self.owned = owned
        self.is_fenced = False
        self.began = NOWHERE
        """The offset of the first record that counts."""
        self._batches = list(batches)
        self._sent: list[tuple[Head, bytes]] = []
        self._producer = owned.producer

    @property
    def is_over(self) -> bool:
        return self.is_fenced or not self._batches

    def batch(self) -> bytes:
        """The batch that comes next, with the name of the place that it should have."""
        owned = self.owned
        self._sent = self._batches[0](owned.expected)
        # The log may get another producer before the answer is there.
        self._producer = owned.producer
        return encode(self._sent, producer=self._producer.of_batch)

    def done(self) -> None:
        """The batch counts."""
        if self.began == NOWHERE:
            self.began = self.owned.expected
        self.owned.expected += len(self._sent)
        self._producer.sent(len(self._sent))
        del self._batches[0]

    def misplaced(self) -> None:
        """The batch is in the log, where it does not count."""
        self._producer.sent(len(self._sent))

    @property
    def size(self) -> int:
        """How many records the batch has."""
        return len(self._sent)

    def is_mine(self, record: Record) -> bool:
        """Whether the record begins the batch, at the place that it should have."""
        return record.counts and record.head == self._sent[0][0]


class Appends:
    """Makes writes of several logs durable, or learns that their claims are over."""

    def __init__(self, cluster: Cluster, partitions: Partitions, reader: LogReader, producers: Producers) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._reader = reader
        self._producers = producers

    async def commit(self, writes: Sequence[Write]) -> None:
        """Sends the batches of all writes, until each of them counts or its claim is fenced.

        Raises: EngineUnavailable: any of them may count.
        """
        try:
            async with asyncio.timeout(self._cluster.limit_s):
                await self._commit(writes)
        except TimeoutError:
            raise EngineUnavailable("no answer in time") from None

    async def _commit(self, writes: Sequence[Write]) -> None:
        pause_s = RETRY_S
        while waiting := [write for write in writes if not write.is_over]:
            batches = {write.owned.partition: write.batch() for write in waiting}
            written = await self._partitions.write_once(batches, APPENDS)
            outcomes = [(write, written[write.owned.partition]) for write in waiting]
            for write, outcome in outcomes:
                await self._judge(write, outcome)
            if any(outcome.code and outcome.code.retriable for _, outcome in outcomes):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)

    async def _judge(self, write: Write, written: Written) -> None:
        owned, code = write.owned, written.code
        if code is ErrorCode.NONE and written.offset == owned.expected:
            write.done()
        elif code is ErrorCode.NONE and written.offset > owned.expected:
            behind = written.offset + write.size
            if not await self._read_gap(write, behind):
                write.misplaced()
        elif code in REFUSED:
            await self._read_gap(write, await self._partitions.end(owned.partition))
            owned.producer = await self._producers.of(owned.log)
        elif code is ErrorCode.NONE:
            raise EngineUnavailable(f"{owned.partition.topic} has lost records: {written.offset} is free again")
        elif not code.retriable:
            raise BrokerError(f"Produce to {owned.partition.topic}", code)

    async def _read_gap(self, write: Write, end: int) -> bool:
        """Reads what stands between the expected offset and another. Returns whether the write's batch counts there."""
        owned = write.owned
        state = LogState(owned.epoch, cover=NOWHERE)
        begin = owned.expected
        async with aclosing(self._reader.records(owned.partition, begin, end)) as records:
            async for record in records:
                if record.offset == begin and write.is_mine(record):
                    write.done()
                    return True
                state = state.after(record)
        if state.epoch > owned.epoch:
            write.is_fenced = True
        owned.expected = max(begin, end)
        return False
