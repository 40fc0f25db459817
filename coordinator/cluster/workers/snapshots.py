"""Bounds the replay of a log: when its tail in the engine is long, its compacted beginning replaces that tail.

A tail is long if it has more than `journal.snapshot.bytes`, and more than the snapshot before it. So a replay reads that much
and twice what is left of the log when it is compacted, and compaction costs each commit the same however large the log is.

A snapshot is made of the log's own closed segments, which are compacted for it first. It stands for every piece whose batches
are in them. Appends go on meanwhile, in the next segment.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from coordinator.cluster.engine.engine import Engine, EngineRefused, EngineUnavailable, Fenced
from coordinator.cluster.engine_writer import EngineWriter
from coordinator.cluster.workers.replay_turns import ReplayTurns
from coordinator.cluster.workers.take_over import SharedShard
from coordinator.cluster.workers.tasks import end, in_thread
from coordinator.log.compaction import clean
from coordinator.log.log import DamagedLog
from coordinator.log.segment import Segment
from coordinator.world.threads import RunInThread

_log = logging.getLogger(__name__)

LOOK_S = 1.0
PART_BYTES = 1 << 20


class Snapshots:
    """Makes the snapshots of one worker's logs, one at a time."""

    def __init__(
        self,
        engine: Engine,
        journal: EngineWriter,
        shards: Sequence[SharedShard],
        turns: ReplayTurns,
        run_in_thread: RunInThread,
        wall_ms: Callable[[], int],
        tail_bytes: int,
    ) -> None:
        """`tail_bytes`: the setting `journal.snapshot.bytes`."""
        self._engine = engine
        self._journal = journal
        self._shards = {shard.name: shard for shard in shards}
        self._turns = turns
        self._run_in_thread = run_in_thread
        self._wall_ms = wall_ms
        self._tail_bytes = tail_bytes
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to look for long tails."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends a snapshot in progress; the one before it stays."""
        await end([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for shard in self._shards.values():
                await self._turns.idle.wait()
                if shard.is_held and self.is_due(shard):
                    await self._try(shard)

    def is_due(self, shard: SharedShard) -> bool:
        """Whether the tail of a shard's log is long."""
        return shard.tail_bytes >= max(self._tail_bytes, shard.snapshot_bytes)

    async def _try(self, shard: SharedShard) -> None:
        try:
            await self.take(shard.name)
        except (Fenced, EngineUnavailable, EngineRefused, OSError, DamagedLog) as error:
            _log.warning("event=snapshot_failed log=%s reason=%s", shard.name, error)

    async def take(self, name: str) -> None:
        """Takes a snapshot of a log that this worker has. Raises Fenced, EngineUnavailable, OSError, DamagedLog."""
        shard = self._shards[name]
        log = shard.log
        log.begin_segment()
        durable = self._journal.durable_claim_of(log)
        if durable is None or not log.segments[:-1]:
            return
        end_offset = log.segments[-1].base_offset
        await self._compact(shard)
        # Not those that have been closed since: their pieces come after the claim's.
        segments = [segment for segment in log.segments if segment.base_offset < end_offset]
        for segment in segments:
            segment.hold()
        try:
            await self._engine.snapshot(durable, durable.next_sequence, _parts(segments))
        finally:
            for segment in segments:
                segment.release()
        if self._journal.epoch_of(name) == durable.epoch:
            self._journal.covered(log, durable)
            shard.snapshot_bytes = sum(segment.size_bytes for segment in segments)
        _log.info(
            "event=snapshot_taken log=%s pieces=%d bytes=%d",
            name, durable.tail, shard.snapshot_bytes,
        )  # fmt: skip

    async def _compact(self, shard: SharedShard) -> None:
        steps = clean(shard.log, self._wall_ms())
        with suppress(StopIteration):
            while True:
                work = next(steps)
                await (asyncio.sleep(0) if work is None else in_thread(self._run_in_thread, work))


async def _parts(segments: Sequence[Segment]) -> AsyncIterator[bytes]:
    """The batches of segments, in pieces of whole batches."""
    for segment in segments:
        begin = end = 0
        for position, header in segment.walk(0):
            end = position + header.size_bytes
            if end - begin >= PART_BYTES:
                yield segment.file.pread(begin, end - begin)
                begin = end
        if end > begin:
            yield segment.file.pread(begin, end - begin)
