"""The two clocks of the outside world (Kafka: `Time`).

The wall clock is for record timestamps and retention; it may jump. The monotonic clock is for sessions, timeouts and delays;
it never goes back, and its zero is arbitrary. Code that mixes the two would expire whole groups when an operator corrects
the time, so each clock has its own method and there is no plain `now()`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Both clocks return integer milliseconds, so that floats never reach records or comparisons."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may go back."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary moment; never goes back."""


class RealClock:
    """The machine's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
