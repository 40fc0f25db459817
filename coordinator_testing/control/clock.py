"""The server's clock."""

from typing import Any, Literal

from msgspec import Struct

from coordinator_testing.control import steps
from coordinator_testing.control.command import command
from coordinator_testing.control.steps import Steps

PATH = "/v1/clock"


class Fired(Struct, frozen=True):
    """A timer that fell due while the clock was advanced."""

    timer: str
    at_ms: int
    """On the monotonic clock."""
    topic: str | None = None
    """The internal topic whose shard had armed it, None if the server itself had."""
    shard: int | None = None
    group: str | None = None
    """The group or transactional id that it is about."""
    member: str | None = None


class ClockReading(Struct, frozen=True):
    """The server's clock."""

    mode: Literal["real", "manual"]
    wall_ms: int
    monotonic_ms: int
    timers: int
    """How many timers are set."""
    next_timer_ms: int | None = None
    """When the next of them is due, on the monotonic clock."""
    fired: list[Fired] = []
    """The timers that fired while the clock was advanced, in order; the first thousand."""
    fired_count: int = 0


class ClockCommands:
    """The server's clock, which all its groups share."""

    made_manual = False
    """Whether this client made the clock manual, and has to make it real again."""

    @command
    def read(self) -> Steps[ClockReading]:
        """Mode, time, and when the next timer is due."""
        return steps.ask(steps.get(PATH), ClockReading)

    @command
    def manual(self) -> Steps[ClockReading]:
        """Stops the clock: sessions, rebalance timeouts and retention move only with `advance`."""
        before = yield from steps.ask(steps.get(PATH), ClockReading)
        self.made_manual = self.made_manual or before.mode == "real"  # also if the next answer is lost
        return (yield from _change(mode="manual"))

    @command
    def real(self) -> Steps[ClockReading]:
        """Lets the clock run again."""
        return self.run_again()

    @command
    def advance(self, ms: int) -> Steps[ClockReading]:
        """Advances a manual clock; returns when everything that fell due has happened."""
        return _change(advance_ms=ms)

    @command
    def advance_to_next(self) -> Steps[ClockReading]:
        """Advances a manual clock to the next timer."""
        return _change(advance_to="next")

    @command
    def set_wall(self, wall_ms: int) -> Steps[ClockReading]:
        """Sets the wall clock, as NTP or an operator does; no timer fires by it."""
        return _change(wall_ms=wall_ms)

    def run_again(self) -> Steps[ClockReading]:
        """The steps of `real`."""
        reading = yield from _change(mode="real")
        self.made_manual = False
        return reading


def _change(**body: Any) -> Steps[ClockReading]:
    return steps.ask(steps.post(PATH, body), ClockReading)
