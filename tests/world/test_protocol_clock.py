"""The protocol's clock: it is the machine's until it is stopped, stands until it is advanced, and never goes back."""

import asyncio
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.runtime.timers import Timers
from coordinator.world.protocol_clock import ProtocolClock
from coordinator_lab.simulation.clock import LoopClock, ManualClock
from coordinator_lab.simulation.loop import SimulatedLoop


class Handle:
    def __init__(self, world, number):
        self.world, self.number = world, number

    def cancel(self):
        self.world.scheduled.pop(self.number, None)


class Machine(ManualClock):
    """A machine's clock with a loop that is never late."""

    def __init__(self):
        super().__init__(monotonic_ms=1_000)
        self.scheduled = {}
        self.number = 0

    def schedule(self, delay_ms, callback):
        self.number += 1
        self.scheduled[self.number] = (self.monotonic_ms() + delay_ms, callback)
        return Handle(self, self.number)

    def pass_time(self, duration_ms):
        until = self.monotonic_ms() + duration_ms
        while (
            self.scheduled and (due := min((when, number) for number, (when, _) in self.scheduled.items()))[0] <= until
        ):
            self.advance(max(0, due[0] - self.monotonic_ms()))
            self.scheduled.pop(due[1])[1]()
        self.advance(until - self.monotonic_ms())


async def nothing():
    pass


def advance(clock, duration_ms, settle=nothing):
    asyncio.run(clock.advance(clock.monotonic_ms() + duration_ms, settle))


def test_a_clock_that_was_never_stopped_is_the_machines_clock_itself():
    machine = Machine()
    clock = ProtocolClock(machine, machine.schedule)
    assert (clock.wall_ms, clock.monotonic_ms) == (machine.wall_ms, machine.monotonic_ms)


def test_time_stands_still_for_the_protocol_and_goes_on_for_the_machine():
    machine, fired = Machine(), []
    clock = ProtocolClock(machine, machine.schedule)
    clock.schedule(500, lambda: fired.append(clock.monotonic_ms()))
    clock.stop()
    clock.schedule(100, lambda: fired.append(clock.monotonic_ms()))
    wall_ms = clock.wall_ms()
    machine.pass_time(60_000)
    assert (clock.monotonic_ms(), clock.wall_ms(), clock.machine_ms()) == (1_000, wall_ms, 61_000)
    assert not fired
    advance(clock, 500)
    assert fired == [1_100, 1_500]
    assert (clock.monotonic_ms(), clock.wall_ms()) == (1_500, wall_ms + 500)


def test_back_in_real_mode_time_runs_on_from_where_it_stood():
    """The machine's hour that went by expires nobody; a day of the clock that went by is not undone."""
    for advanced_ms in (0, 24 * 3_600_000):
        machine, fired = Machine(), []
        clock = ProtocolClock(machine, machine.schedule)
        clock.stop()
        machine.pass_time(3_600_000)
        advance(clock, advanced_ms)
        clock.schedule(45_000, lambda fired=fired, clock=clock: fired.append(clock.monotonic_ms()))
        before = clock.monotonic_ms(), clock.wall_ms()
        clock.run()
        assert (clock.monotonic_ms(), clock.wall_ms()) == before
        machine.pass_time(44_999)
        assert not fired
        machine.pass_time(1)
        assert fired == [1_000 + advanced_ms + 45_000]
        assert clock.wall_ms() == before[1] + 45_000


def test_the_wall_clock_jumps_alone_in_either_mode():
    machine = Machine()
    clock = ProtocolClock(machine, machine.schedule)
    clock.set_wall(5)
    machine.pass_time(10)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (15, 1_010)
    clock.stop()
    clock.set_wall(7)
    advance(clock, 3)
    clock.run()
    machine.pass_time(1)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (11, 1_014)


def test_each_wake_up_is_settled_before_the_next_one():
    machine, trace = Machine(), []
    clock = ProtocolClock(machine, machine.schedule)
    clock.stop()

    async def settle():
        trace.append("settled")

    for delay_ms in (2, 1, 2):
        clock.schedule(delay_ms, lambda delay_ms=delay_ms: trace.append(delay_ms))
    advance(clock, 10, settle)
    assert trace == [1, "settled", 2, "settled", 2, "settled"]


def test_what_is_due_at_once_happens_at_once_although_time_stands():
    machine, fired = Machine(), []
    clock = ProtocolClock(machine, machine.schedule)
    clock.stop()
    clock.schedule(0, lambda: fired.append("now"))
    clock.schedule(1, lambda: fired.append("later"))
    machine.pass_time(0)
    assert fired == ["now"]
    clock.schedule(0, lambda: fired.append("in the advance"))
    advance(clock, 0)
    clock.run()
    machine.pass_time(1)
    assert fired == ["now", "in the advance", "later"]


keys = st.integers(0, 4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), keys, st.integers(0, 24)),
        st.tuples(st.just("disarm"), keys, st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.integers(0, 20)),
    ),
    max_size=40,
)


def fired_in(history, *, manual):
    """What fires when, for two shards whose timers arm each other, by a real loop or by a clock that is advanced."""
    loop, trace = SimulatedLoop(Random(1)), []
    clock = ProtocolClock(LoopClock(loop.time), lambda delay_ms, callback: loop.call_later(delay_ms / 1000, callback))

    def fire(shard):
        def fired(key):
            trace.append((clock.monotonic_ms(), shard, key))
            if len(key) < 3:
                shards[1 - shard].arm((*key, "again"), 5 * EIGHTH_MS)

        return fired

    shards = [Timers(clock, clock.schedule, fire(shard)) for shard in range(2)]

    async def play():
        if manual:
            clock.stop()
        for verb, key, amount in history:
            if verb == "arm":
                shards[key % 2].arm((key,), amount)
            elif verb == "disarm":
                shards[key % 2].disarm((key,))
            elif clock.is_manual:
                await clock.advance(clock.monotonic_ms() + amount, nothing)
            else:
                await asyncio.sleep(amount / 1000)
                await asyncio.sleep(0)

    loop.run_until_complete(play())
    loop.close()
    return trace


EIGHTH_MS = 125
"""The unit of delays: binary fractions of a second, which a loop that counts in floats adds up exactly."""


@settings(max_examples=200, deadline=None)
@given(steps)
def test_timers_fire_in_the_order_and_at_the_times_of_real_time(history):
    """Only the order of timers that are due at the same time is open, in a real loop as well."""
    history = [(verb, key, amount * EIGHTH_MS) for verb, key, amount in [*history, ("pass", 0, 40)]]
    manual = fired_in(history, manual=True)
    assert sorted(manual) == sorted(fired_in(history, manual=False))
    assert [when for when, *_ in manual] == sorted(when for when, *_ in manual)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["stop", "run", "pass", "advance"]), max_size=20), st.integers(1, 5_000))
def test_no_switch_and_no_advance_moves_time_back_or_lets_a_timer_fire_early(verbs, delay_ms):
    machine, fired = Machine(), []
    clock = ProtocolClock(machine, machine.schedule)
    due = clock.monotonic_ms() + delay_ms
    Timers(clock, clock.schedule, lambda key: fired.append(clock.monotonic_ms())).arm(("key",), delay_ms)
    last = clock.monotonic_ms()
    for verb in verbs:
        if verb in ("stop", "run"):
            getattr(clock, verb)()
        elif verb == "pass":
            machine.pass_time(700)
        elif clock.is_manual:
            advance(clock, 900)
        assert clock.monotonic_ms() >= last
        last = clock.monotonic_ms()
    assert fired == ([due] if last >= due else [])
