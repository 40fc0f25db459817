"""The two clocks of the outside world, handed to whoever needs the time.

The wall clock says what goes into records and retention; it may jump. The monotonic clock runs sessions, timeouts and
delays; it never goes back, and its zero means nothing. Code that mixes the two expires whole groups when an operator
corrects the time, so each has its own name and there is no plain `now()`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Integer milliseconds only: floats never reach records or comparisons."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an unknown moment; never decreases."""


class RealClock:
    """The machine's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
