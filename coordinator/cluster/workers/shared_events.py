"""The event logs of a worker's shards: a shard's event log is claimed, written and released together with the log of its state.

    take    at a take-over only the last pieces are read: enough to go on writing, and to declare which events are undone
    fill    what is before them follows when no shard is taken, one log after another, past the parts of this process that
            decode records
    retain  what retention deletes here is deleted in the engine, by a snapshot that has no parts

Until it is filled, a log is not shown to readers, because its beginning would seem to be deleted. The claim of the state comes
first: an old owner may then still append events, of decisions that never took effect, and the next `EventLogOpened` says so.
The other way round, decisions would have no events.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing

from coordinator.cluster.engine.engine import Claim, Engine, EngineUnavailable, Fenced, Piece, no_parts
from coordinator.cluster.engine_writer import EngineWriter
from coordinator.cluster.workers.replay_turns import ReplayTurns
from coordinator.cluster.workers.tasks import end, in_thread
from coordinator.log.batch import split
from coordinator.log.journaled_log import JournaledLog
from coordinator.log.log import DamagedLog
from coordinator.log.segment import segment_name
from coordinator.runtime.event_log import EventLog
from coordinator.world.threads import RunInThread

_log = logging.getLogger(__name__)

WRITE_BYTES = 4 << 20
"""What is read from the engine until it is written to the local file."""
AGAIN_S = 2.0
"""How long after a failure a log is filled again."""


class SharedEventLog:
    """The event log of one shard, while this worker has it."""

    def __init__(
        self,
        name: str,
        log: JournaledLog,
        events: EventLog | None,
        journal: EngineWriter,
        run_in_thread: RunInThread,
        turns: ReplayTurns,
        exists: Callable[[], bool],
    ) -> None:
        """`name`: of the log, in the engine. `events`: None if this worker records none; then it keeps what is there.

        `turns`: so that only one log of a worker is filled at a time, and none while shards are taken. `exists`: whether any
        worker has ever recorded events.
        """
        self.name = name
        self.exists = exists
        self.log = log
        self.is_whole = False
        """Whether everything that the engine has of it is here."""
        self._events = events
        self._journal = journal
        self._run_in_thread = run_in_thread
        self._turns = turns
        self._filling: asyncio.Task[None] | None = None
        self._first_sequences: dict[int, int] = {}
        """Base offset of a segment -> sequence of the first piece in it."""

    @property
    def is_held(self) -> bool:
        """Whether this worker has a claim of the log."""
        return self._journal.claim_of(self.log) is not None

    @property
    def is_shown(self) -> bool:
        """Whether readers may have it: it is this worker's, and whole."""
        return self.is_whole and self.is_held

    async def take(self, engine: Engine, claim: Claim, state_offset: int) -> Claim:
        """Begins the log with its last pieces, and declares which events are undone. `state_offset`: the end of the state.

        Returns the claim with the sequence that is next. Raises Fenced, EngineUnavailable, OutcomeUnknown, OSError.
        """
        await self._take_end(engine, claim, state_offset)
        declaration = None if self._events is None else self._events.declaration(state_offset)
        if declaration is None:
            return claim
        if await engine.append([Piece(claim, claim.next_sequence, declaration)]):
            raise Fenced(f"{self.name}: another worker was quicker")
        self.log.append_replayed(declaration)
        self.log.flush()
        return claim._replace(next_sequence=claim.next_sequence + 1)

    @property
    def has_failed(self) -> bool:
        """Whether the engine could not write or read it when its shard was taken."""
        return self.log.failed is not None

    async def fail(self, error: Exception) -> None:
        """The engine cannot write or read the log: the shard is served without it, and its events are lost. Raises OSError."""
        _log.error("event=event_log_failed log=%s reason=%s", self.name, error)
        await self.stop()
        self.is_whole = False
        self.log.begin_again()
        self.log.failed = OSError(errno.EIO, str(error))

    async def _take_end(self, engine: Engine, claim: Claim, state_offset: int) -> None:
        await self.stop()
        self.is_whole = False
        count = 1
        while True:
            first = max(claim.covered, claim.next_sequence - count)
            pieces = await engine.tail(self.name, first) if first < claim.next_sequence else []
            self._begin(first, [data for _, data in pieces])
            if first == claim.covered or self._events is None or self._events.reaches_back(state_offset):
                self.is_whole = first == claim.covered
                return
            count *= 8

    def _begin(self, sequence: int, pieces: Sequence[bytes]) -> None:
        log = self.log
        base_offset = next((header.base_offset for data in pieces for _, header in split(data)), 0)
        log.begin_again(base_offset)
        self._first_sequences = {base_offset: sequence}
        for data in pieces:
            log.append_replayed(data)
        log.flush()

    def hold(self, engine: Engine, claim: Claim, beside: JournaledLog) -> None:
        """Writes to the log from now on, and begins to fill it."""
        self._journal.hold(self.log, claim, beside=beside, on_segment=self._first_sequences.__setitem__)
        if not self.is_whole:
            self._filling = asyncio.create_task(self._fill_until_whole(engine, claim))

    # --- the rest -----------------------------------------------------------------------------------------------------

    async def _fill_until_whole(self, engine: Engine, claim: Claim) -> None:
        while self._journal.epoch_of(self.name) == claim.epoch:
            try:
                async with self._turns.filling:
                    await self._fill(engine, claim)
            except (EngineUnavailable, OSError) as error:
                _log.warning("event=events_not_filled log=%s reason=%s", self.name, error)
                await asyncio.sleep(AGAIN_S)
            else:
                return

    async def stop(self) -> None:
        """Ends the filling."""
        await end([self._filling])

    async def _fill(self, engine: Engine, claim: Claim) -> None:
        """Puts the pieces before those of `take` into segments of their own. Raises EngineUnavailable, OSError."""
        await self._turns.idle.wait()
        start_offset = self.log.start_offset
        older = _OlderSegments(self.log, self._run_in_thread)
        async with aclosing(engine.read(self.name)) as reading:  # type: ignore[type-var]
            async for sequence, data in reading:
                if int.from_bytes(data[:8]) >= start_offset:
                    break
                await older.add(sequence, data)
                await self._turns.idle.wait()
        await older.write()
        if self._journal.epoch_of(self.name) == claim.epoch:
            if older.sizes:
                self.log.put_before([*older.sizes.items()])
            self._first_sequences |= older.first_sequences
            self.is_whole = True

    async def retain(self, engine: Engine, now_ms: int) -> None:
        """Deletes the oldest events that exceed the retention time or size. Raises Fenced, EngineUnavailable, OSError."""
        log, journal = self.log, self._journal
        if not self.is_whole or journal.claim_of(log) is None:
            return
        if log.expired_segments(now_ms) == len(log.segments):
            journal.begin_segment(log)
        log.apply_retention(now_ms)
        claim = journal.durable_claim_of(log)
        assert claim is not None
        # The last piece stays: it says where the next one begins.
        upto = min(self._first_sequences.get(log.start_offset, 0), claim.next_sequence - 1)
        if upto > claim.covered:
            await engine.snapshot(claim, upto, no_parts())
            journal.covered(log, claim._replace(next_sequence=upto))


class _OlderSegments:
    """Segments that a fill writes. Nobody decodes what is in them before it is read."""

    def __init__(self, log: JournaledLog, run_in_thread: RunInThread) -> None:
        self.sizes: dict[int, int] = {}
        """Base offset -> bytes."""
        self.first_sequences: dict[int, int] = {}
        self._log = log
        self._run_in_thread = run_in_thread
        self._base_offset = 0
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0

    async def add(self, sequence: int, data: bytes) -> None:
        """Adds a piece. Raises OSError."""
        size_bytes = self.sizes.get(self._base_offset, 0) + self._gathered_bytes
        if not self.sizes or size_bytes >= self._log.settings.segment_bytes:
            await self.write()
            self._base_offset = int.from_bytes(data[:8])
            self.sizes[self._base_offset], self.first_sequences[self._base_offset] = 0, sequence
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes >= WRITE_BYTES:
            await self.write()

    async def write(self) -> None:
        """Writes what has gathered. Raises OSError."""
        base_offset, data = self._base_offset, b"".join(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        if data:
            at = self.sizes[base_offset]
            await in_thread(self._run_in_thread, lambda: self._append(base_offset, at, data))
            self.sizes[base_offset] += len(data)

    def _append(self, base_offset: int, at: int, data: bytes) -> None:
        file = self._log.disk.open(f"{self._log.folder}/{segment_name(base_offset)}")
        try:
            file.truncate(at)
            file.append(data)
        finally:
            file.close()


class EventRetention:
    """Applies the retention of one worker's event logs."""

    def __init__(self, engine: Engine, logs: Sequence[SharedEventLog]) -> None:
        self._engine = engine
        self._logs = logs
        self._task: asyncio.Task[None] | None = None

    def begin(self, now_ms: int) -> None:
        """Begins to delete what is too old or too much, unless that is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self.apply(now_ms))

    async def apply(self, now_ms: int) -> None:
        """Deletes it."""
        for log in self._logs:
            try:
                await log.retain(self._engine, now_ms)
            except (Fenced, EngineUnavailable, OSError, DamagedLog) as error:
                _log.warning("event=event_log_retention_failed log=%s reason=%s", log.name, error)

    async def stop(self) -> None:
        """Ends what is under way, and the filling of the logs."""
        await end([self._task])
        for log in self._logs:
            await log.stop()
