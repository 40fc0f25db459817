"""The engine over a Kafka-compatible cluster. docs/scale-out.md says what operators need.

Each log has a topic. Its partition has a total order, which every reader sees alike, and that is all that is needed: a claim
counts by its place among the claims, a piece by standing where it says (records.py). There are no transactions: a turn is
one request to each leader that has a partition of it, and one round trip.

It speaks the protocol itself, with the project's own codec, and no client library. What it stands on is the offset that a
leader answers. So it must see each answer, decide itself what is repeated, and write the name of its place into each attempt;
it sends several partitions in one request of its own, writes batches of an initialized transactional id without a transaction,
and removes records. Libraries queue, retry and hide that: aiokafka sends when its own task gets to it, repeats with a place
that is not known any more, and a producer of it that has lost count of its sequences stays so.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress

import msgspec

from coordinator.cluster.engine.address import EngineAddress
from coordinator.cluster.engine.ended import EndedClaims
from coordinator.cluster.engine.engine import (
    Claim,
    EngineSettings,
    EngineUnavailable,
    Fenced,
    Owner,
    Piece,
    Summary,
    Worker,
)
from coordinator.cluster.engine.kafka.appends import Appends, Batch, OwnedLog, Write
from coordinator.cluster.engine.kafka.cluster import Cluster
from coordinator.cluster.engine.kafka.control import Control, Leave, Owners
from coordinator.cluster.engine.kafka.log import LogReader, Tails, Trimmed
from coordinator.cluster.engine.kafka.partitions import Partitions
from coordinator.cluster.engine.kafka.producers import Producers
from coordinator.cluster.engine.kafka.records import (
    CLAIM,
    NOWHERE,
    PIECE,
    ClaimValue,
    CoverValue,
    Head,
    Starts,
    divide,
    encode,
)
from coordinator.cluster.engine.kafka.snapshots import CoverWrite, write_parts
from coordinator.cluster.engine.kafka.topics import Topics

BATCH_BYTES = 1 << 20
"""The largest batch that is sent, if the topic takes it."""


class KafkaEngine:
    """A worker's connections to the cluster that all workers share."""

    def __init__(self, address: EngineAddress, settings: EngineSettings) -> None:
        """Raises: ValueError: the address is not valid; EngineRefused: the name of the cluster is not."""
        self._settings = settings
        self.on_change: Callable[[], None] = lambda: None
        self._cluster = Cluster(address, settings)
        self._topics = Topics(self._cluster, settings)
        self._partitions = Partitions(self._cluster)
        self._reader = LogReader(self._partitions)
        self._tails = Tails(self._partitions, self._reader)
        self._producers = Producers(self._cluster, settings.cluster)
        self._appends = Appends(self._cluster, self._partitions, self._reader, self._producers)
        self._control = Control(self._cluster, self._partitions, self._topics.control, settings, self._changed)
        self._owned_logs: dict[str, OwnedLog] = {}
        self._writing = asyncio.Lock()
        """One batch of a log is in flight at a time."""
        self._ended = EndedClaims()
        self._known_ends: dict[str, int] = {}
        """Up to where each log is known to go."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Connects, makes the control topic where it is missing, and checks all topics.

        Raises: EngineRefused; EngineUnavailable.
        """
        try:
            await self._topics.open()
            self._cluster.is_checked = True
            await self._control.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._control.close()
        await self._cluster.close()

    def _changed(self) -> None:
        self.on_change()

    # --- claims -------------------------------------------------------------------------------------------------------

    async def claim_all(self, worker: Worker, seen: Mapping[str, int | None]) -> dict[str, Claim | BaseException]:
        """The newest claims of logs, which leave in one request to each leader. Raises: EngineUnavailable."""
        with suppress(EngineUnavailable):  # each log has its own error
            await self._topics.ensure(map(self._topics.pieces_of, seen))
        owners: dict[str, Owner] = {}
        claims = (self._claim(log, worker, epoch, owners) for log, epoch in seen.items())
        found = dict(zip(seen, await asyncio.gather(*claims, return_exceptions=True), strict=True))
        await self._control.write(Owners(owners))
        return found

    async def _claim(self, log: str, worker: Worker, seen: int | None, owners: dict[str, Owner]) -> Claim:
        """`owners` gets the claim that counts, whosever it is. Raises: Fenced; EngineUnavailable."""
        partition, epoch = self._topics.pieces_of(log), seen
        await self._topics.ensure([partition])
        while True:
            if epoch is None:
                epoch = (await self._reader.state_before(partition, await self._partitions.end(partition))).epoch
            owned = await self._try_claim(log, epoch + 1, worker, owners)
            if owned is not None:
                break
            if seen is not None:
                raise Fenced(f"{log}: the epoch is not {seen} any more")
            epoch = None
        if owned.cover_offset != NOWHERE:
            cover = await self._reader.cover_at(partition, owned.cover_offset)
            owned.starts = Starts(cover.upto, cover.tail)
            owned.covered(owned.cover_offset, cover)
        self._owned_logs[log] = owned
        self._lock(owned)
        return Claim(log, owned.epoch, owned.next_sequence, owned.covered_upto)

    def _lock(self, owned: OwnedLog) -> None:
        """Shuts the second lock; nothing waits for it."""

        async def lock() -> None:
            owned.producer = await self._producers.of(owned.log)

        task = asyncio.create_task(lock())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try_claim(
        self, log: str, epoch: int, worker: Worker | None, owners: dict[str, Owner]
    ) -> OwnedLog | None:
        """Writes a claim. Returns the log if this one counts; `owners` gets whichever does, which is to be announced."""
        partition = self._topics.pieces_of(log)
        mine = ClaimValue(uuid.uuid4().hex, worker)
        written = await self._partitions.write(partition, encode([(Head(CLAIM, epoch), msgspec.json.encode(mine))]))
        end = written.offset + 1
        self._known_ends[log] = max(end, self._known_ends.get(log, 0))
        state = await self._reader.state_before(partition, end)
        is_mine = state.claim is not None and state.claim.id == mine.id
        owners[log] = Owner(state.epoch, None if state.claim is None else state.claim.worker)
        return OwnedLog(log, partition, state, written.offset, end) if is_mine else None

    async def release(self, claims: Sequence[Claim]) -> None:
        """Ends claims: a claim without a worker counts behind each of them.

        Raises: EngineUnavailable.
        """
        self._ended.end(claims)
        owners: dict[str, Owner] = {}
        releases = (self._try_claim(claim.log, claim.epoch + 1, None, owners) for claim in claims)
        failed = [
            each for each in await asyncio.gather(*releases, return_exceptions=True) if isinstance(each, Exception)
        ]
        await self._control.write(Owners(owners))
        if failed:
            raise failed[0]

    # --- appends ------------------------------------------------------------------------------------------------------

    async def append(self, pieces: Sequence[Piece]) -> frozenset[str]:
        """Appends the pieces of all logs, in one request to each leader; returns the logs whose claims have ended.

        Raises: OutcomeUnknown.
        """
        return await self._ended.append(pieces, self._send)

    async def _send(self, pieces: list[Piece]) -> set[str]:
        """Returns the logs of which no piece was appended. Raises: EngineUnavailable."""
        by_log: dict[str, list[Piece]] = {}
        for piece in pieces:
            by_log.setdefault(piece.claim.log, []).append(piece)
        async with self._writing:
            refused = {log for log, some in by_log.items() if not self._is_next(some)}
            writes = [self._write_of(some) for log, some in by_log.items() if log not in refused]
            await self._appends.commit(writes)
            for write in writes:
                if not write.is_fenced:
                    some = by_log[write.owned.log]
                    write.owned.starts.add(some[0].sequence, write.began)
                    write.owned.next_sequence = some[-1].sequence + 1
            return refused | {write.owned.log for write in writes if write.is_fenced}

    def _is_next(self, pieces: Sequence[Piece]) -> bool:
        """Whether the claim is still this worker's, and its pieces follow those that it has appended."""
        owned = self._owned_logs.get(pieces[0].claim.log)
        if owned is None or owned.epoch != pieces[0].claim.epoch or self._ended.has_ended(pieces[0].claim):
            return False
        return [piece.sequence for piece in pieces] == list(
            range(owned.next_sequence, owned.next_sequence + len(pieces))
        )

    def _write_of(self, pieces: Sequence[Piece]) -> Write:
        owned = self._owned_logs[pieces[0].claim.log]
        first = pieces[0].sequence

        def batch_of(records: list[tuple[int, int, int, bytes]]) -> Batch:
            def at(offset: int) -> list[tuple[Head, bytes]]:
                return [
                    (owned.head(PIECE, offset + delta, first, sequence, number, total), data)
                    for delta, (sequence, number, total, data) in enumerate(records)
                ]

            return at

        divided = divide([piece.data for piece in pieces], first, self._batch_bytes(owned))
        return Write(owned, [batch_of(records) for records in divided])

    def _batch_bytes(self, owned: OwnedLog) -> int:
        return min(BATCH_BYTES, self._topics.batch_bytes(owned.partition))

    # --- reading ------------------------------------------------------------------------------------------------------

    async def read(self, log: str, claim: Claim | None = None) -> AsyncIterator[tuple[int, bytes]]:
        """The parts of the newest snapshot and the pieces behind it, each with its sequence; up to the place of the claim.

        Raises: Fenced; EngineUnavailable.
        """
        if claim is None and not await self._topics.exists(log):
            return
        partition = self._topics.pieces_of(log)
        last = -1 if claim is None else claim.covered - 1
        try:
            if claim is None:
                end = max(await self._partitions.end(partition), self._known_ends.get(log, 0))
                newest = (await self._reader.state_before(partition, end)).cover
                cover = None if newest == NOWHERE else await self._reader.cover_at(partition, newest)
                starts = Starts(0, 0)
            else:
                owned = self._owned_log_of(claim)
                cover, end, starts = owned.cover, owned.offset, owned.starts
            async with aclosing(
                self._reader.stored(partition, self._topics.parts_of(log), cover, end, starts)
            ) as stored:
                async for last, data in stored:
                    yield last, data
        except Trimmed as error:
            raise EngineUnavailable(f"{error}; a snapshot has replaced what was to be read") from None
        if claim is not None and last + 1 != claim.next_sequence:
            raise EngineUnavailable(
                f"{log} cannot be loaded: the piece {last + 1} is missing, or a newer snapshot is there"
            )

    async def tail(self, log: str, sequence: int) -> list[tuple[int, bytes]]:
        """The pieces of a log from a sequence on, as far as every replica in sync has them.

        Raises: EngineUnavailable.
        """
        if not await self._topics.exists(log):
            return []
        return await self._tails.read(self._topics.pieces_of(log), sequence, self._known_ends.get(log, 0))

    def _owned_log_of(self, claim: Claim) -> OwnedLog:
        """Raises: Fenced, if the claim has ended."""
        self._ended.refuse(claim)
        owned = self._owned_logs.get(claim.log)
        if owned is None or owned.epoch != claim.epoch:
            raise Fenced(f"the claim of {claim.log} with epoch {claim.epoch} has ended")
        return owned

    # --- snapshots ----------------------------------------------------------------------------------------------------

    async def snapshot(
        self,
        claim: Claim,
        upto: int,
        parts: AsyncIterator[bytes],
        begin: int | None = None,  # noqa: ARG002 - pieces are found by their sequences
    ) -> None:
        """Stores a snapshot, part by part, and a cover by which it counts; then removes what it replaces.

        Raises: Fenced; EngineUnavailable.
        """
        owned = self._owned_log_of(claim)
        of_parts = self._topics.parts_of(claim.log)
        await self._topics.ensure([of_parts])
        wanted = await write_parts(self._partitions, of_parts, owned, parts, upto, self._batch_bytes(owned))
        cover = await self._cover(claim, owned, wanted)
        await self._partitions.trim(owned.partition, cover.tail)
        await self._partitions.trim(of_parts, cover.begin)

    async def _cover(self, claim: Claim, owned: OwnedLog, wanted: CoverValue) -> CoverValue:
        """Appends a cover, and returns it. Raises: Fenced; EngineUnavailable."""
        async with self._writing:
            self._ended.refuse(claim)
            write = CoverWrite(owned, wanted)
            try:
                await self._appends.commit([write])
            except BaseException:
                self._ended.end([claim])
                raise
            if write.is_fenced:
                self._ended.end([claim])
            self._ended.refuse(claim)
            owned.covered(write.began, write.cover)
            return write.cover

    # --- workers and owners -------------------------------------------------------------------------------------------

    async def beat(self, worker: Worker) -> Summary:
        """Says that a worker lives. Raises: EngineUnavailable."""
        return await self._control.beat(worker)

    async def leave(self, worker: Worker) -> None:
        """Says that a worker stops. Raises: EngineUnavailable."""
        await self._control.write(Leave(worker.id))

    async def workers(self, within_ms: int | None = None) -> list[Worker]:
        """The workers whose last beat is recent by the broker's clock. Raises: EngineUnavailable."""
        return await self._control.workers(within_ms)

    async def owners(self) -> dict[str, Owner]:
        """The newest claims that were announced. Raises: EngineUnavailable."""
        return await self._control.owners()
