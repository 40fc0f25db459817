"""The clock of the protocol: sessions, timeouts, intervals, retention and the timestamps of records. A test may stop it.

The network, the disks and the server's own housekeeping go by the machine's clock, which nobody can stop. So a stopped clock
expires no member and no transaction, and every request is still answered.

    real      the clock runs as the machine's does
    manual    the clock stands until it is advanced, from one wake-up to the next, each at its own time; what is due at once
              (a delay of 0) happens at once

A change of the mode moves no time: the clock stands where it ran, and runs on from where it stood. So it may be ahead of the
machine's clock from then on, or behind it; it never goes back, and no wake-up falls due by the change.

Until it is stopped for the first time, this clock *is* the machine's: its methods are those of the machine's clock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from coordinator.world.clock import Clock
from coordinator.world.schedule import Handle, Schedule

OnFired = Callable[[str, int | None, tuple[Hashable, ...]], None]
"""`on_fired(topic, shard, key)`: "" and None for a timer that belongs to no shard. `key`: the name of the timer comes first."""


class _WakeUp:
    """A scheduled callback, with the handle by which the loop will call it in real mode."""

    __slots__ = ("_clock", "callback", "due_ms", "handle")

    def __init__(self, clock: "ProtocolClock", due_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self.callback = callback
        self.due_ms = due_ms
        self.handle: Handle | None = None

    def run(self) -> None:
        self._clock.wake_ups.pop(self, None)
        self.callback()

    def cancel(self) -> None:
        self._clock.wake_ups.pop(self, None)
        if self.handle is not None:
            self.handle.cancel()


class ProtocolClock:
    """A `Clock` with a `Schedule`. Keep the clock, not its methods: they are others when the mode changes."""

    __slots__ = (
        "_ahead_ms", "_machine", "_monotonic_ms", "_schedule", "_wall_ahead_ms", "_wall_ms", "is_manual", "machine_ms",
        "monotonic_ms", "moving", "on_fired", "wake_ups", "wall_ms", "work_ns",
    )  # fmt: skip

    def __init__(self, machine: Clock, schedule: Schedule) -> None:
        self._machine = machine
        self._schedule = schedule
        self.wall_ms: Callable[[], int] = machine.wall_ms
        self.monotonic_ms: Callable[[], int] = machine.monotonic_ms
        self.machine_ms: Callable[[], int] = machine.machine_ms
        self.work_ns: Callable[[], int] = machine.work_ns
        self.is_manual = False
        self.moving = asyncio.Lock()
        """Held by whoever advances the clock or changes its mode."""
        self.wake_ups: dict[_WakeUp, None] = {}
        """In the order in which they were scheduled."""
        self.on_fired: OnFired = lambda _topic, _shard, _key: None
        """Called with each timer that fires."""
        self._ahead_ms = self._wall_ahead_ms = 0
        """This clock minus the machine's, in real mode."""
        self._monotonic_ms = self._wall_ms = 0
        """The time, in manual mode."""

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> Handle:
        """A `Schedule` that goes by this clock."""
        wake_up = _WakeUp(self, self.monotonic_ms() + delay_ms, callback)
        self.wake_ups[wake_up] = None
        if delay_ms <= 0 or not self.is_manual:
            wake_up.handle = self._schedule(delay_ms, wake_up.run)
        return wake_up

    @property
    def next_due_ms(self) -> int | None:
        """The monotonic time of the next wake-up."""
        return min((each.due_ms for each in self.wake_ups), default=None)

    def stop(self) -> None:
        """Manual mode: time stands still from now on."""
        if self.is_manual:
            return
        self._wall_ms, self._monotonic_ms = self.wall_ms(), self.monotonic_ms()
        self.is_manual = True
        self.wall_ms, self.monotonic_ms = lambda: self._wall_ms, lambda: self._monotonic_ms
        for wake_up in self.wake_ups:
            if wake_up.handle is not None and wake_up.due_ms > self._monotonic_ms:
                wake_up.handle.cancel()
                wake_up.handle = None

    def run(self) -> None:
        """Real mode: time runs on from where it stands."""
        if not self.is_manual:
            return
        self._ahead_ms = self._monotonic_ms - self._machine.monotonic_ms()
        self._wall_ahead_ms = self._wall_ms - self._machine.wall_ms()
        self.is_manual = False
        self._use_offsets()
        for wake_up in list(self.wake_ups):
            if wake_up.handle is None:
                wake_up.handle = self._schedule(max(0, wake_up.due_ms - self._monotonic_ms), wake_up.run)

    def set_wall(self, wall_ms: int) -> None:
        """Sets the wall clock, as an operator or NTP does. The monotonic clock is not affected."""
        if self.is_manual:
            self._wall_ms = wall_ms
        else:
            self._wall_ahead_ms = wall_ms - self._machine.wall_ms()
            self._use_offsets()

    async def advance(self, until_ms: int, settle: Callable[[], Awaitable[None]]) -> None:
        """Moves a stopped clock to this monotonic time, by way of every wake-up that falls due.

        After each one `settle()` is awaited: it returns when what the wake-up has caused is done.
        """
        while True:
            wake_up = min(self.wake_ups, key=lambda each: each.due_ms, default=None)
            if wake_up is None or wake_up.due_ms > until_ms:
                break
            self._move(wake_up.due_ms)
            wake_up.cancel()
            wake_up.callback()
            await settle()
        self._move(until_ms)

    def _move(self, monotonic_ms: int) -> None:
        step_ms = max(0, monotonic_ms - self._monotonic_ms)
        self._monotonic_ms += step_ms
        self._wall_ms += step_ms

    def _use_offsets(self) -> None:
        machine = self._machine
        self.wall_ms = lambda: machine.wall_ms() + self._wall_ahead_ms
        self.monotonic_ms = lambda: machine.monotonic_ms() + self._ahead_ms
