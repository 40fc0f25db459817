"""Waits until what the server has decided by now is durable, its replies have left, and what follows from it is done as well.

A round waits for what was written when it began, so that other groups' traffic does not keep it from ending. What is written
because something became durable, such as the markers of a transaction, is the next round's.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from coordinator.admin.server_view import ServerView
from coordinator.runtime.shard import Shard, Status
from coordinator.transactions.complete import Completion

ROUNDS_MAX = 8
"""Rounds that anything may cause: a decision, its markers, their completion."""
WAIT_MS_MAX = 5_000
"""How long a round waits: as long as a client waits for the log (offsets.commit.timeout.ms)."""
TURNS_AT_ONCE = 20
"""Turns of the loop that go by before a wait polls at intervals, which leaves the processor to the disk's threads."""
_POLL_S = 0.001


class Settling:
    """Waits for the server again and again; what did not settle in time is not waited for again."""

    def __init__(self, server: ServerView) -> None:
        self._server = server
        self._given_up: set[Shard[Any] | Completion] = set()

    async def settle(self) -> None:
        """Returns when everything that was decided before is done."""
        for _ in range(ROUNDS_MAX):
            await asyncio.sleep(0)
            unsettled = self._unsettled()
            deliveries = self._server.marker_delivery.in_progress - self._given_up
            if not unsettled and not deliveries:
                return
            targets = [(shard, shard.offset_written, shard.state) for shard in unsettled]
            late: set[Any] = set(deliveries)
            if not await self._wait_until(lambda: all(_is_done(*target) for target in targets)):  # noqa: B023
                self._given_up.update(shard for shard, *rest in targets if not _is_done(shard, *rest))
            if not await self._wait_until(lambda: not late & self._server.marker_delivery.in_progress):  # noqa: B023
                self._given_up |= late & self._server.marker_delivery.in_progress
            await asyncio.sleep(0)  # the replies leave at the end of a turn

    def _unsettled(self) -> list[Shard[Any]]:
        return [
            shard
            for shard in self._server.shards
            if not shard.is_settled and shard.status is not Status.FAILED and shard not in self._given_up
        ]

    async def _wait_until(self, is_done: Callable[[], bool]) -> bool:
        """Waits for at most `WAIT_MS_MAX`, by the machine's clock; returns whether it came to pass."""
        machine_ms = self._server.clock.machine_ms
        late_ms, turns = machine_ms() + WAIT_MS_MAX, 0
        while not is_done():
            if machine_ms() > late_ms:
                return False
            turns += 1
            await asyncio.sleep(0 if turns < TURNS_AT_ONCE else _POLL_S)
        return True


def _is_done(shard: Shard[Any], written: int, state: Any) -> bool:
    """Whether the shard's log is durable up to here, or the shard has dropped it and loaded its log again."""
    if shard.status in (Status.FAILED, Status.STOPPED):
        return True
    return shard.is_settled if state is not shard.state else shard.offset_durable >= written
