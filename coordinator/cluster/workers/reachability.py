"""Whether clients can reach this worker, as far as it can find out itself.

The engine sees that a worker lives, not that clients reach it. So a worker connects to its own advertised addresses, and to
those of the others, as a client would. It is cut off if one of its own does not answer any more, or if none of at least two
others does: then it is more likely that the fault is on its side. Others that died at the same moment do not answer either,
which the engine says a little later; so their silence must last longer. An address counts from the first time that it answered,
because a worker need not be able to reach its own address from inside (a load balancer, NAT).
"""

import asyncio
from collections.abc import Awaitable, Callable

from coordinator.cluster.workers.cluster import Workers, listeners_of

EVERY_S = 0.5
ANSWER_S = 1.0
FAILURES = 2
"""So many failures in a row count."""
OTHERS_MIN = 2

Address = tuple[str, int]


async def answers(address: Address) -> bool:
    """Whether somebody accepts connections there."""
    try:
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(*address)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


class Reachability:
    """Looks twice a second. `is_cut_off` is the outcome."""

    def __init__(
        self,
        cluster: Workers,
        on_change: Callable[[], None],
        dead_after_ms: int,
        answers: Callable[[Address], Awaitable[bool]] = answers,
    ) -> None:
        """`dead_after_ms`: when the engine declares a worker without beats dead."""
        self._failures_of_others = FAILURES + -(-dead_after_ms // int(EVERY_S * 1000))
        self.is_cut_off = False
        self._cluster = cluster
        self._on_change = on_change
        self._answers = answers
        self._failures: dict[Address, int] = {}
        """Failures in a row of the addresses that have answered once."""

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Connects to all addresses, and calls `on_change` if the outcome is another one."""
        me = self._cluster.me
        assert me is not None
        own = [at for _, at in listeners_of(me)] or [(me.host, me.port)]
        others = [(each.host, each.port) for each in self._cluster.living if each.id != me.id]
        await asyncio.gather(*(self._try(address) for address in (*own, *others)))
        known = [address for address in others if address in self._failures]
        alone = len(known) >= OTHERS_MIN and all(
            self._failures[address] >= self._failures_of_others for address in known
        )
        is_cut_off = alone or any(self._failures.get(address, 0) >= FAILURES for address in own)
        if is_cut_off != self.is_cut_off:
            self.is_cut_off = is_cut_off
            self._on_change()

    async def _try(self, address: Address) -> None:
        if await self._answers(address):
            self._failures[address] = 0
        elif address in self._failures:
            self._failures[address] += 1
