"""The clock of the protocol as a test reads, stops and advances it: `/v1/clock` (world/protocol_clock.py)."""

import asyncio
from collections.abc import Hashable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.admin.endpoint import Endpoint, RefusedRequest, Request
from coordinator.admin.server_view import ServerView
from coordinator.admin.settling import Settling

ADVANCE_MS_MAX = 31 * 24 * 3_600_000
"""The longest advance: the retention of offsets (a week) is well within. It takes thousands of wake-ups."""
FIRED_MAX = 1_000
"""Timers that the answer to an advance lists; it counts all of them."""
WALL_MS_MAX = 253_402_300_799_999
"""The end of the year 9999."""


class ClockChange(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What to do with the clock: exactly one of these."""

    mode: Literal["real", "manual"] | UnsetType = UNSET
    advance_ms: Annotated[int, Meta(ge=0, le=ADVANCE_MS_MAX)] | UnsetType = UNSET
    advance_to: Literal["next"] | UnsetType = UNSET
    wall_ms: Annotated[int, Meta(ge=0, le=WALL_MS_MAX)] | UnsetType = UNSET
    """Sets the wall clock in either mode, as NTP or an operator does. No timer fires by it."""


class FiredTimer(Struct, omit_defaults=True):
    """A timer that fired during an advance. `shard` is null for retention, which belongs to no shard."""

    timer: str
    at_ms: int
    shard: int | None
    topic: str | None = None
    """The internal topic of the shard."""
    group: str | None = None
    member: str | None = None


class ClockView(Struct, omit_defaults=True):
    """The clock. `monotonic_ms` and the times of timers count from an arbitrary moment."""

    mode: Literal["real", "manual"]
    wall_ms: int
    monotonic_ms: int
    next_timer_ms: int | None
    """When the next timer is due, by `monotonic_ms`."""
    timers: int
    """Armed timers of all shards."""
    fired: list[FiredTimer] | UnsetType = UNSET
    """The first thousand timers that an advance let fire, in order."""
    fired_count: int | UnsetType = UNSET


def read_clock(server: ServerView, _request: Request) -> ClockView:
    """The mode and the time, and when the next timer is due."""
    return clock_view(server)


async def change_clock(server: ServerView, request: Request) -> ClockView:
    """Stops, starts or advances the clock. Returns when everything that an advance caused is done.

    Raises RefusedRequest: 409 the clock runs and cannot be advanced, or no timer is armed; 422 not exactly one change.
    """
    change: ClockChange = request.body
    if sum(value is not UNSET for value in (change.mode, change.advance_ms, change.advance_to, change.wall_ms)) != 1:
        raise RefusedRequest(422, "the body must have exactly one field", sorted(ClockChange.__struct_fields__))
    async with server.clock.moving:
        if change.mode == "manual":
            server.clock.stop()
        elif change.mode == "real":
            server.clock.run()
        elif change.wall_ms is not UNSET:
            server.clock.set_wall(change.wall_ms)
        else:
            return await _advance(server, None if change.advance_ms is UNSET else change.advance_ms)
    return clock_view(server)


def clock_view(server: ServerView) -> ClockView:
    """The clock as it is now."""
    clock = server.clock
    for shard in server.shards:
        shard.correct_timers()
    return ClockView(
        mode="manual" if clock.is_manual else "real",
        wall_ms=clock.wall_ms(),
        monotonic_ms=clock.monotonic_ms(),
        next_timer_ms=clock.next_due_ms,
        timers=sum(shard.timers_armed for shard in server.shards),
    )


async def _advance(server: ServerView, advance_ms: int | None) -> ClockView:
    """Advances by this time, None: to the next timer."""
    clock, fired = server.clock, _Fired(server)
    if not clock.is_manual:
        raise RefusedRequest(409, 'the clock runs: POST {"mode": "manual"} stops it')
    settling = Settling(server)
    await settling.settle()
    until_ms = clock_view(server).next_timer_ms if advance_ms is None else clock.monotonic_ms() + advance_ms
    if until_ms is None:
        raise RefusedRequest(409, "no timer is armed")
    before, clock.on_fired = clock.on_fired, fired.add
    try:
        await clock.advance(until_ms, settling.settle)
    finally:
        clock.on_fired = before
    await asyncio.sleep(0)  # replies that waited for nothing leave as well
    view = clock_view(server)
    view.fired, view.fired_count = fired.listed, fired.count
    return view


class _Fired:
    """The timers that fire during an advance."""

    def __init__(self, server: ServerView) -> None:
        self._clock = server.clock
        self.listed: list[FiredTimer] = []
        self.count = 0

    def add(self, topic: str, shard: int | None, key: tuple[Hashable, ...]) -> None:
        """A timer fires. `key`: its name, and for most timers a group and a member."""
        self.count += 1
        if len(self.listed) < FIRED_MAX:
            names: list[Any] = [item for item in key[1:] if isinstance(item, str)]
            group, member = (*names, None, None)[:2]
            at_ms = self._clock.monotonic_ms()
            self.listed.append(FiredTimer(str(key[0]), at_ms, shard, topic or None, group, member))


ENDPOINTS = (
    Endpoint(
        "GET", "/v1/clock", "read the clock of the protocol", read_clock, name="getClock", returns=ClockView,
        control=True,
    ),
    Endpoint(
        "POST", "/v1/clock", "stop, start or advance the clock of the protocol", change_clock, name="changeClock",
        body=ClockChange, returns=ClockView, refusals=(409,), control=True,
    ),
)  # fmt: skip
