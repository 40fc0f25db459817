"""The server's clock, which an event may advance, and how its times become those of this machine.

Everything is judged by this machine's wall clock: a partition does not stand still for five minutes because the server's clock
was advanced by them. Where the server's clock stood, its times become the moment from which it stood there.
"""

from bisect import bisect_right
from collections.abc import Awaitable
from typing import NamedTuple

from coordinator_testing.certify.programs import now_ms
from coordinator_testing.control import AsyncControl
from coordinator_testing.control.clock import ClockReading


class _Point(NamedTuple):
    server_ms: int
    machine_ms: int
    runs: bool


class StageClock:
    """The clock of the server during one event."""

    def __init__(self, control: AsyncControl) -> None:
        self._control = control
        self._points: list[_Point] = []

    async def start(self) -> None:
        """Reads the clock; again after the server was started again."""
        await self._note(self._control.clock.read())

    async def manual(self) -> None:
        """Stops the clock."""
        await self._note(self._control.clock.manual())

    async def advance(self, ms: int) -> None:
        """Advances the stopped clock; returns when all that fell due has happened."""
        await self._note(self._control.clock.advance(ms))

    async def real(self) -> None:
        """Lets the clock run on from where it stands."""
        await self._note(self._control.clock.real())

    @property
    def began_ms(self) -> int:
        """The server's time when the event began."""
        return self._points[0].server_ms

    @property
    def runs(self) -> bool:
        """Whether it is not stopped."""
        return self._points[-1].runs

    def machine_ms(self, server_ms: int) -> int:
        """The time of this machine for a time of the server."""
        index = max(bisect_right(self._points, server_ms, key=lambda point: point.server_ms) - 1, 0)
        point = self._points[index]
        return point.machine_ms + (server_ms - point.server_ms if point.runs else 0)

    async def _note(self, asked: Awaitable[ClockReading]) -> None:
        asked_ms = now_ms()
        reading, answered_ms = await asked, now_ms()
        # The time that the answer took is no difference between the clocks.
        is_same = asked_ms <= reading.wall_ms <= answered_ms
        self._points.append(
            _Point(reading.wall_ms, reading.wall_ms if is_same else answered_ms, reading.mode == "real")
        )
        # A server that was killed has the machine's clock again, which may be behind the one that it had.
        self._points = [each for each in self._points[:-1] if each.server_ms <= reading.wall_ms] + self._points[-1:]
