"""One log changes its worker: claim, replay, load; or hand over and release."""

import asyncio
from contextlib import aclosing
from math import inf
from typing import Any

from coordinator.cluster.engine.engine import Claim, Engine, LogFailed, Owner, no_parts
from coordinator.cluster.engine_writer import EngineWriter
from coordinator.cluster.workers.shared_events import SharedEventLog
from coordinator.log.journaled_log import JournaledLog
from coordinator.runtime.shard import Shard

FLUSH_BYTES = 1 << 20
"""How much of a replayed log is in memory at most before it is written to the local segments."""
POLL_S = 0.002


class SharedShard:
    """A shard whose log may be this worker's or another's."""

    def __init__(
        self, name: str, shard: Shard[Any], journal: EngineWriter, events: SharedEventLog | None = None
    ) -> None:
        """`name`: of the log, in the engine. `events`: the event log of the shard, which goes where the shard goes."""
        self.name = name
        self.shard = shard
        self.events = events
        self._journal = journal
        self.snapshot_bytes = 0
        """How many bytes of the local log the newest snapshot in the engine stands for."""
        self._first_sequences: dict[int, int] = {}
        """Base offset of a segment -> sequence of the first piece in it."""
        self.copied_epoch = 0
        """The epoch of the claim by which another worker had the log when it was copied; 0: there is no copy."""
        self._next_sequence = 0
        """Of the first piece that is not copied."""
        self._last_hash = 0
        """Of the last part or piece that was read of the log."""
        self._lengths: list[int] = []
        """Of what was read of the log."""

    @property
    def log(self) -> JournaledLog:
        return self.shard.log

    @property
    def claim(self) -> Claim | None:
        """This worker's claim of the log."""
        return self._journal.claim_of(self.log)

    @property
    def is_held(self) -> bool:
        """Whether this worker has a claim of the log."""
        return self.claim is not None

    @property
    def tail_bytes(self) -> int:
        """The length of the log behind the newest snapshot."""
        return self.log.size_bytes - self.snapshot_bytes

    @property
    def events_name(self) -> str:
        """The name of the event log, which is claimed after that of the state; empty: there is none, or none yet."""
        return "" if self.events is None or not self.events.exists() else self.events.name

    @property
    def lacks_events(self) -> bool:
        """Whether this worker took the shard before there were events, and has not got the event log."""
        events = self.events
        return self.is_held and events is not None and events.exists() and not (events.is_held or events.has_failed)

    async def replay(self, engine: Engine, state: Claim, events: Claim | BaseException | None) -> None:
        """Reads the logs from the engine, and begins to load the shard from them.

        `events`: the claim of the event log, or why there is none; None: there is no event log. Raises that error, Fenced,
        EngineUnavailable, OutcomeUnknown, OSError or CorruptBatch. Then `drop` must follow.
        """
        await self._replay(engine, state)
        of_events = None
        if self.events is not None and events is not None:
            try:
                if isinstance(events, BaseException):
                    raise events
                of_events = await self.events.take(engine, events, self.log.end_offset)
            except LogFailed as error:  # which keeps nobody from the shard
                await self.events.fail(error)
        self._first_sequences = {each.base_offset: state.covered for each in self.log.segments[:1]}
        self._journal.hold(self.log, state, on_segment=self._first_sequences.__setitem__)
        if self.events is not None and of_events is not None:
            self.events.hold(engine, of_events, beside=self.log)
        self.shard.take_over()

    async def copy(self, engine: Engine, epoch: int) -> None:
        """Copies the log of another worker, who has it by a claim of this epoch, so that little is left to be replayed.

        Raises EngineUnavailable, OSError or CorruptBatch.
        """
        self.copied_epoch = 0
        await self._read(engine, None)
        await self._read_on(engine)
        self.copied_epoch = epoch

    async def _read(self, engine: Engine, claim: Claim | None) -> None:
        """Reads the log from its beginning. Raises as `copy`; with a claim Fenced, too."""
        log, unflushed_bytes = self.log, 0
        log.begin_again()
        self._lengths, self._next_sequence = [], 0
        async with aclosing(engine.read(self.name, claim)) as reading:  # type: ignore[type-var]
            async for sequence, batches in reading:
                self._append(sequence, batches)
                unflushed_bytes += len(batches)
                if unflushed_bytes >= FLUSH_BYTES:
                    log.flush()
                    unflushed_bytes = 0
        log.flush()

    async def _read_on(self, engine: Engine, end: float = inf) -> bool:
        """Copies the pieces that follow, up to a sequence. Returns whether all are there. Raises as `copy`.

        The last piece that was read must be there still. A failover of the engine may have lost it, with the claim by which it
        was appended, and others may have its sequence and their claim its epoch.
        """
        pieces = await engine.tail(self.name, max(self._next_sequence - 1, 0))
        if self._next_sequence:
            hashes = [hash(batches) for _, batches in pieces]
            if self._last_hash not in hashes:
                return False
            del pieces[: hashes.index(self._last_hash) + 1]
        for sequence, batches in pieces:
            if sequence == self._next_sequence < end:
                self._append(sequence, batches)
        self.log.flush()
        return self._next_sequence == end

    def continues(self, owner: Owner | None) -> bool:
        """Whether the copy may be continued by who claims the log from this owner: nobody else has claimed it since."""
        return owner is not None and 0 < self.copied_epoch == owner.epoch - (owner.worker is None)

    def _append(self, sequence: int, batches: bytes) -> None:
        self.log.append_replayed(batches)
        self._lengths.append(len(batches))
        self._next_sequence, self._last_hash = sequence + 1, hash(batches)

    async def _replay(self, engine: Engine, claim: Claim) -> None:
        copied_epoch, self.copied_epoch = self.copied_epoch, 0
        if not copied_epoch or not await self._read_on(engine, claim.next_sequence):
            await self._read(engine, claim)
        # What comes before the pieces is the snapshot. An engine that joins pieces compacts the log itself.
        log, lengths, pieces = self.log, self._lengths, claim.tail
        self.snapshot_bytes = sum(lengths[: len(lengths) - pieces] if len(lengths) >= pieces else lengths)
        if log.gap_end:
            log.checkpoint.write(clean_offset=log.gap_end)

    async def prune(self, engine: Engine, offset: int, tail_bytes: int) -> None:
        """Deletes segments before an offset here, and their pieces in the engine. Raises Fenced, EngineUnavailable, OSError.

        `tail_bytes`: from this size on the last segment ends, so that a later call can delete it.
        """
        log, journal = self.log, self._journal
        claim = journal.durable_claim_of(log)
        if claim is None or not log.segments:
            return
        if log.segments[-1].size_bytes >= tail_bytes:
            journal.begin_segment(log)
        log.truncate_before(max(log.start_offset, min(offset, log.durable_offset)))
        begin = log.segments[0].base_offset
        # The last piece stays: it says where the next one begins.
        upto = min(self._first_sequences.get(begin, 0), claim.next_sequence - 1)
        if upto > claim.covered:
            await engine.snapshot(claim, upto, no_parts(), begin)
            journal.covered(log, claim._replace(next_sequence=upto))
            for base in [base for base in self._first_sequences if base < begin]:
                del self._first_sequences[base]

    async def give(self, reason: str) -> list[Claim]:
        """Ends the service here, when all that was decided is durable. Returns the claims, which are to be released."""
        self.shard.hand_over(reason)
        while self.is_held and self._journal.is_under_way(self.log):  # noqa: ASYNC110 - appends end by themselves
            await asyncio.sleep(POLL_S)
        return self.drop(reason)

    def drop(self, reason: str) -> list[Claim]:
        """Ends the service here at once. Returns the claims."""
        claims = self._journal.let_go(self.log)
        self.shard.give_up(reason)
        return claims
