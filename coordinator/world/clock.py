"""The clocks of the outside world (Kafka: `Time`).

The wall clock is for record timestamps and retention; it may jump. The monotonic clock is for sessions, timeouts and delays;
it never goes back, and its zero is arbitrary. Code that mixes the two would expire whole groups when an operator corrects
the time, so each clock has its own method and there is no plain `now()`.

The monotonic clock of the protocol can be stopped by a test (protocol_clock.py). That of the machine cannot: time limits of
the network and the disks go by it.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """All clocks return integers, so that floats never reach records or comparisons."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may go back."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary moment; never goes back."""

    def machine_ms(self) -> int:
        """As `monotonic_ms`, for what does not belong to the protocol."""

    def work_ns(self) -> int:
        """Nanoseconds of the machine's clock, to measure how long a piece of work takes."""


class RealClock:
    """The machine's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    machine_ms = monotonic_ms

    def work_ns(self) -> int:
        return time.perf_counter_ns()
