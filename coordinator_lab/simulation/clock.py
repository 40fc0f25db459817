"""Clocks that a test or the simulated loop advances, so that nothing ever waits for real time."""

from collections.abc import Callable

WORK_NS = 50_000
"""What a piece of work takes on a simulated machine, for those that measure it."""


class ManualClock:
    """A `world.clock.Clock` that a test advances. The wall clock can be set to any time; the monotonic one only advances."""

    __slots__ = ("_monotonic_ms", "_wall_ms")

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    machine_ms = monotonic_ms

    def work_ns(self) -> int:
        return self._monotonic_ms * 1_000_000

    def advance(self, duration_ms: int) -> None:
        """Advances both clocks."""
        assert duration_ms >= 0
        self._wall_ms += duration_ms
        self._monotonic_ms += duration_ms

    def set_wall(self, wall_ms: int) -> None:
        """Sets the wall clock, as an operator or NTP does; the monotonic clock is unaffected."""
        self._wall_ms = wall_ms


class LoopClock:
    """The clock of a simulated machine: it follows the loop, faster or slower, and the wall clock can be skewed."""

    __slots__ = ("_time_s", "_work_ns", "rate", "skew_ms", "zero_s")

    def __init__(
        self,
        time_s: Callable[[], float],
        wall_ms: int = 1_700_000_000_000,
        *,
        rate: float = 1.0,
        zero_s: float = 0.0,
    ) -> None:
        """`time_s`: of the world. `wall_ms`, `zero_s`: what wall clock and monotonic clock show when it begins.

        `rate`: how many seconds of the machine pass in one of the world.
        """
        self._time_s = time_s
        self._work_ns = 0
        self.rate = rate
        self.zero_s = zero_s
        self.skew_ms = wall_ms - int(zero_s * 1000)
        """Wall clock minus monotonic clock; changing it makes the wall clock jump."""

    def wall_ms(self) -> int:
        return self.skew_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int((self._time_s() * self.rate + self.zero_s) * 1000)

    machine_ms = monotonic_ms

    def work_ns(self) -> int:
        """No simulated time passes during a piece of work; it takes as long each time that it is asked."""
        self._work_ns += WORK_NS
        return self._work_ns
