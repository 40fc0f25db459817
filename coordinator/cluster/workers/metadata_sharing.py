"""The metadata log of several workers: topics, settings, users, producer ids. All follow it, and any of them may write.

    follow   when the engine has reported a change, and several times a second while another worker writes: reads what others
             have appended, and replays it
    lead     when this worker wants to write: it claims the log, reads what it lacks, and runs the operations that wait; what
             they commit goes through the journal like any batch. When that is durable it releases the log.
    compact  when the log has many pieces: the one who leads writes the whole registry again, as changes that change nothing,
             then removes the pieces before it. A worker that was away meanwhile finds that pieces are missing, and that
             what is not in the log any more was removed.

There is no fixed controller, so clients can send changes to any worker, and none needs a way to forward them. A worker waits
for another one that writes, but not for long, because that one may hang: then it takes the log, which fences the other, whose
changes are refused with NOT_CONTROLLER. Changes of topics are rare, and a block of producer ids lasts for a thousand
transactions' producers.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from coordinator.cluster.engine.engine import (
    Claim,
    Engine,
    EngineUnavailable,
    Fenced,
    Owner,
    Worker,
    claim_one,
    no_parts,
)
from coordinator.cluster.engine_writer import EngineWriter
from coordinator.cluster.workers.cluster import Workers
from coordinator.cluster.workers.tasks import end
from coordinator.topics.topics import METADATA_FOLDER, Topics

_log = logging.getLogger(__name__)

FOLLOW_S = 0.2
"""How often a worker reads what another one writes that has claimed the log."""
POLL_S = 0.001
PATIENCE_S = 1.0
"""How long a worker waits for another one that writes."""
LOOK_S = 0.02
"""How often it looks whether that one is done."""
PIECES_MAX = 1_000
"""With so many pieces, beside those that the registry itself has, the log is compacted. Few workers ever write them."""
NOBODY = Owner(0, None)
"""The owner of a log that was never claimed."""


class MetadataSharing:
    """One worker's part in the metadata log."""

    def __init__(
        self,
        engine: Engine,
        worker: Worker,
        cluster: Workers,
        journal: EngineWriter,
        topics: Topics,
        sequence: int,
        *,
        pieces_max: int,
    ) -> None:
        """`sequence`: of the first piece that `topics` does not have. `pieces_max`: as `PIECES_MAX`."""
        self._pieces_max = pieces_max
        self._engine = engine
        self._worker = worker
        self._cluster = cluster
        self._journal = journal
        self._topics = topics
        self._log = topics.metadata.log
        self._sequence = sequence
        self._waiting: deque[Callable[[], None]] = deque()
        self._wake = asyncio.Event()
        self._owner_seen = (0, 0.0)
        """The epoch of the last owner that was seen, and when it was."""
        self._task: asyncio.Task[None] | None = None
        topics.metadata.when_leading = self._when_leading
        cluster.on_seen = self._wake.set

    def start(self) -> None:
        """Begins to follow, and to lead when something is to be written."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends the following, when what is under way is durable."""
        await end([self._task])
        while self._journal.is_under_way(self._log):  # noqa: ASYNC110 - appends end by themselves
            await asyncio.sleep(POLL_S)
        try:
            await self._release()
        except EngineUnavailable as error:
            _log.warning("event=not_released reason=%s", error)

    def _when_leading(self, operation: Callable[[], None]) -> None:
        self._waiting.append(operation)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._settle()
                if not self._topics.metadata.in_steps:
                    await self._compact()
                    await self._release()
                await self._follow()
                if self._waiting and self._journal.claim_of(self._log) is None:
                    await self._lead()
            except Exception as error:  # noqa: BLE001 - an engine that refuses today may be fit tomorrow
                _log.warning("event=metadata_not_followed reason=%s", error)
                asyncio.get_running_loop().call_later(FOLLOW_S, self._wake.set)
            # Without a claim what they write is refused, which they report to their clients.
            waiting, self._waiting = self._waiting, deque()
            is_writing = bool(waiting)
            self._topics.metadata.is_behind = self._journal.claim_of(self._log) is None
            while waiting:
                self._call(waiting.popleft())
            if not is_writing and not self._waiting:
                await self._sleep()

    @staticmethod
    def _call(operation: Callable[[], None]) -> None:
        try:
            operation()
        except Exception:  # noqa: BLE001 - a bug in one change must not end the following
            _log.exception("event=change_of_metadata_failed")

    async def _sleep(self) -> None:
        # Also while a dead worker has it, whose last append may still arrive.
        is_written = self._cluster.owners.get(METADATA_FOLDER, NOBODY).worker is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(FOLLOW_S if is_written else None):
                await self._wake.wait()

    async def _settle(self) -> None:
        """Waits until nothing of this worker is under way."""
        while self._journal.is_under_way(self._log):  # noqa: ASYNC110 - as above
            await asyncio.sleep(POLL_S)
        claim = self._journal.claim_of(self._log)
        if claim is not None:
            self._sequence = claim.next_sequence

    async def _follow(self) -> None:
        """Replays what others have written since. If there is something, they have fenced this worker."""
        pieces = await self._engine.tail(METADATA_FOLDER, self._sequence)
        if not pieces:
            return
        self._journal.let_go(self._log)
        if pieces[0][0] > self._sequence:
            self._topics.catch_up([batches for _, batches in pieces])
            _log.info("event=metadata_caught_up pieces=%d", len(pieces))
        else:
            for _, batches in pieces:
                self._topics.follow(batches)
        self._sequence = pieces[-1][0] + 1

    async def _compact(self) -> None:
        """Shortens the log if that is due. Nothing of this worker is under way. Raises Fenced, EngineUnavailable."""
        claim = self._journal.claim_of(self._log)
        if claim is None or claim.tail < self._pieces_max:
            return
        batches = sum(1 for _ in self._topics.registry.snapshot(self._worker.node_id))
        if claim.tail < self._pieces_max + batches:
            return
        self._topics.metadata.write_again(self._worker.node_id)
        await self._settle()
        held = self._journal.claim_of(self._log)
        if held is not None and held.epoch == claim.epoch:
            # The registry is in the piece of this sequence, whole, because what a turn writes to a log is one piece.
            await self._engine.snapshot(held, claim.next_sequence, no_parts())
            self._journal.covered(self._log, claim)
            _log.info("event=metadata_compacted pieces=%d", claim.tail)

    async def _release(self) -> None:
        """Lets others write. Raises EngineUnavailable: the log may still be claimed, by this worker."""
        claims = self._journal.let_go(self._log)
        owner, now_s = self._cluster.owners.get(METADATA_FOLDER, NOBODY), asyncio.get_running_loop().time()
        if owner.epoch != self._owner_seen[0]:
            self._owner_seen = owner.epoch, now_s
        if owner.worker is not None and self._cluster.owner_of(METADATA_FOLDER) is None and not claims:
            is_mine = owner.worker.id == self._worker.id
            if is_mine or now_s > self._owner_seen[1] + PATIENCE_S:
                # That of its start, or one that an append has ended; or a dead worker's, but not of one that joins just now.
                claims = [Claim(METADATA_FOLDER, owner.epoch, 0, 0)]
        if claims:
            await self._engine.release(claims)

    async def _lead(self) -> None:
        claim = await self._claim()
        await self._follow()
        self._journal.hold(self._log, claim)

    async def _claim(self) -> Claim:
        """The claim of the log, when the one who writes has released it or has had time enough."""
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + PATIENCE_S
        while True:
            owner = (await self._engine.owners()).get(METADATA_FOLDER, NOBODY)
            is_free = owner.worker is None or owner.worker.id == self._worker.id
            if is_free or loop.time() >= patient_until:
                with suppress(Fenced):  # another one was quicker
                    return await claim_one(self._engine, METADATA_FOLDER, self._worker, seen=owner.epoch)
            await asyncio.sleep(LOOK_S)
