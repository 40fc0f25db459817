"""The clock of the protocol as a test sees and moves it: `GET` and `POST /v1/clock` (world/protocol_clock.py)."""

import asyncio
from collections.abc import Hashable
from typing import Any

from coordinator.admin.endpoint import RefusedRequest
from coordinator.admin.server_view import ServerView
from coordinator.admin.settling import Settling

ADVANCE_MS_MAX = 31 * 24 * 3_600_000
"""The longest advance: retention of offsets (a week) and of events is well within. It is thousands of wake-ups."""
FIRED_MAX = 1_000
"""Timers that the answer to an advance lists; it counts all of them."""
WALL_MS_MAX = 253_402_300_799_999
"""The end of the year 9999."""


def clock_view(server: ServerView) -> dict[str, Any]:
    """The mode and time of the clock, and when the next timer is due."""
    clock = server.clock
    for shard in server.shards:
        shard.correct_timers()
    return {
        "mode": "manual" if clock.is_manual else "real",
        "wall_ms": clock.wall_ms(),
        "monotonic_ms": clock.monotonic_ms(),
        "next_timer_ms": clock.next_due_ms,
        "timers": sum(shard.timers_armed for shard in server.shards),
    }


async def set_mode(server: ServerView, mode: str) -> dict[str, Any]:
    """Stops the clock (`manual`), or lets it run on from where it stands (`real`)."""
    async with server.clock.moving:
        if mode == "manual":
            server.clock.stop()
        else:
            server.clock.run()
    return clock_view(server)


async def set_wall(server: ServerView, wall_ms: int) -> dict[str, Any]:
    """Sets the wall clock, in either mode, as NTP or an operator does. No timer fires by it."""
    async with server.clock.moving:
        server.clock.set_wall(wall_ms)
    return clock_view(server)


async def advance(server: ServerView, advance_ms: int | None) -> dict[str, Any]:
    """Advances the stopped clock by this time, None: to the next timer. Returns when everything that it caused is done.

    Raises RefusedRequest (409): the clock is not stopped, or no timer is armed.
    """
    clock, fired = server.clock, _Fired(server)
    async with clock.moving:
        if not clock.is_manual:
            raise RefusedRequest(409, 'the clock runs: POST {"mode": "manual"} stops it')
        settling = Settling(server)
        await settling.settle()
        if advance_ms is None:
            until_ms = clock_view(server)["next_timer_ms"]
            if until_ms is None:
                raise RefusedRequest(409, "no timer is armed")
        else:
            until_ms = clock.monotonic_ms() + advance_ms
        before, clock.on_fired = clock.on_fired, fired.add
        try:
            await clock.advance(until_ms, settling.settle)
        finally:
            clock.on_fired = before
        await asyncio.sleep(0)  # replies that waited for nothing leave as well
    return clock_view(server) | {"fired": fired.listed, "fired_count": fired.count}


class _Fired:
    """The timers that fire during an advance."""

    def __init__(self, server: ServerView) -> None:
        self._clock = server.clock
        self.listed: list[dict[str, Any]] = []
        self.count = 0

    def add(self, topic: str, shard: int | None, key: tuple[Hashable, ...]) -> None:
        self.count += 1
        if len(self.listed) < FIRED_MAX:
            timer = {"topic": topic or None, "shard": shard, "timer": key[0], "at_ms": self._clock.monotonic_ms()}
            subjects = [item for item in key[1:] if isinstance(item, str)]
            self.listed.append(timer | dict(zip(("group", "member"), subjects, strict=False)))
