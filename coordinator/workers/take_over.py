"""One log changes its worker: claim, replay, load; or hand over and release."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from coordinator.engine.engine import Claim, Engine, Fenced, Worker
from coordinator.journal.shared_journal import SharedJournal
from coordinator.log.journaled_log import JournaledLog
from coordinator.runtime.shard import Shard

_log = logging.getLogger(__name__)

FLUSH_BYTES = 1 << 20
"""How much of a replayed log is in memory at most before it is written to the local segments."""
POLL_S = 0.002


class SharedShard:
    """A shard whose log may be this worker's or another's."""

    def __init__(self, name: str, shard: Shard[Any], journal: SharedJournal) -> None:
        """`name`: of the log, in the engine."""
        self.name = name
        self.shard = shard
        self._journal = journal
        self.is_moving = False
        """Whether it is being taken or given."""

    @property
    def log(self) -> JournaledLog:
        return self.shard.log

    @property
    def is_held(self) -> bool:
        """Whether this worker has a claim of the log."""
        return self._journal.claim_of(self.log) is not None

    async def take(self, engine: Engine, worker: Worker, seen: int, on_claimed: Callable[[], None]) -> Claim:
        """Claims the log, and begins to load the shard from it. `seen`: the epoch of the owner that is to be replaced.

        Raises Fenced if another worker was quicker, EngineUnavailable, OSError or CorruptBatch. Then the shard serves nothing.
        """
        claim = await engine.claim(self.name, worker, seen=seen)
        self.shard.await_log()
        on_claimed()
        try:
            await self._replay(engine, claim)
        except BaseException as error:
            self.shard.give_up(f"the log cannot be read: {error!r}")
            raise
        self._journal.hold(self.log, claim)
        self.shard.take_over()
        return claim

    async def _replay(self, engine: Engine, claim: Claim) -> None:
        log = self.log
        log.begin_again()
        unflushed_bytes = 0
        async for batches in engine.replay(claim):
            log.append_replayed(batches)
            unflushed_bytes += len(batches)
            if unflushed_bytes >= FLUSH_BYTES:
                log.flush()
                unflushed_bytes = 0
        log.flush()

    async def give(self, reason: str) -> Claim | None:
        """Ends the service here, when all that was decided is durable. Returns the claim, which is to be released."""
        self.shard.hand_over(reason)
        while self.is_held and self._journal.is_under_way(self.log):  # noqa: ASYNC110 - appends end by themselves
            await asyncio.sleep(POLL_S)
        return self.drop(reason)

    def drop(self, reason: str) -> Claim | None:
        """Ends the service here at once. Returns the claim, if there is one."""
        claim = self._journal.let_go(self.log)
        self.shard.give_up(reason)
        return claim


def describe_failure(error: BaseException) -> str:
    """Why a log could not be taken, for the log of the server."""
    return "another worker was quicker" if isinstance(error, Fenced) else f"{type(error).__name__}: {error}"
