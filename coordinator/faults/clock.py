"""A clock that moves when it is told to, so that a test or a simulation never waits for real time."""


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
