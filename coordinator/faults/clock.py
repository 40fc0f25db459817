"""Clocks that move when they are told to, so that a test or a simulation never waits for real time."""

from collections.abc import Callable


class ManualClock:
    """Both clocks of `world.clock.Clock`. The wall clock may be set to anything; the monotonic one only advances."""

    __slots__ = ("_monotonic_ms", "_wall_ms")

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, duration_ms: int) -> None:
        """Lets time pass on both clocks."""
        assert duration_ms >= 0
        self._wall_ms += duration_ms
        self._monotonic_ms += duration_ms

    def set_wall(self, wall_ms: int) -> None:
        """What an operator or NTP does: the wall clock jumps, the monotonic one does not notice."""
        self._wall_ms = wall_ms


class LoopClock:
    """Both clocks of a simulated machine: they follow its loop, and its wall clock can be set wrong."""

    __slots__ = ("_time_s", "skew_ms")

    def __init__(self, time_s: Callable[[], float], wall_ms: int = 1_700_000_000_000) -> None:
        self._time_s = time_s
        self.skew_ms = wall_ms
        """Wall clock minus monotonic clock: add to it, and the wall clock jumps."""

    def wall_ms(self) -> int:
        return self.skew_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self._time_s() * 1000)
