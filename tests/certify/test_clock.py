"""Times of the server as times of this machine, also where an event has advanced the server's clock."""

from coordinator_testing.certify import clock as module
from coordinator_testing.certify.clock import StageClock
from coordinator_testing.control.clock import ClockReading

NOW = 1_700_000_000_000


class FakeControl:
    """A server whose clock a test sets."""

    def __init__(self):
        self.clock = self
        self.wall_ms, self.mode = NOW, "real"

    async def read(self) -> ClockReading:
        return ClockReading(mode=self.mode, wall_ms=self.wall_ms, monotonic_ms=0, timers=0)

    async def manual(self) -> ClockReading:
        self.mode = "manual"
        return await self.read()

    async def real(self) -> ClockReading:
        self.mode = "real"
        return await self.read()

    async def advance(self, ms: int) -> ClockReading:
        self.wall_ms += ms
        return await self.read()


async def test_a_clock_that_was_advanced_is_mapped_to_the_moments_of_this_machine(monkeypatch):
    machine = NOW
    monkeypatch.setattr(module, "now_ms", lambda: machine)
    control = FakeControl()
    clock = StageClock(control)
    await clock.start()
    assert clock.machine_ms(NOW + 500) == NOW + 500
    machine, control.wall_ms = NOW + 1_000, NOW + 1_000
    await clock.manual()
    assert not clock.runs
    machine += 2_000
    await clock.advance(300_000)
    machine += 500
    await clock.real()
    assert clock.machine_ms(NOW + 400) == NOW + 400
    assert clock.machine_ms(NOW + 1_000) == NOW + 1_000
    assert clock.machine_ms(NOW + 200_000) == NOW + 1_000
    assert clock.machine_ms(NOW + 301_000) == NOW + 3_500
    assert clock.machine_ms(NOW + 301_700) == NOW + 4_200


async def test_a_server_that_was_killed_has_the_clock_of_the_machine_again(monkeypatch):
    machine = NOW
    monkeypatch.setattr(module, "now_ms", lambda: machine)
    control = FakeControl()
    control.wall_ms = NOW + 300_000
    clock = StageClock(control)
    await clock.start()
    assert clock.machine_ms(NOW + 300_200) == NOW + 200
    machine = control.wall_ms = NOW + 5_000
    await clock.start()
    assert clock.machine_ms(NOW + 6_000) == NOW + 6_000


async def test_a_late_answer_is_no_difference_between_the_clocks(monkeypatch):
    times = iter([NOW, NOW + 40])
    monkeypatch.setattr(module, "now_ms", lambda: next(times))
    control = FakeControl()
    control.wall_ms = NOW + 3
    clock = StageClock(control)
    await clock.start()
    assert clock.machine_ms(NOW + 500) == NOW + 500
