"""Timers fire correctly under any order of arming, re-arming, disarming and time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.runtime.timers import GRACE_MS, GRACES_MAX, Timers


class World:
    """A clock that a test moves and a scheduler that runs what is due."""

    def __init__(self):
        self.now = 0
        self.scheduled = {}
        self.sequence = 0

    def monotonic_ms(self):
        return self.now

    def schedule(self, delay_ms, callback):
        self.sequence += 1
        handle = Handle(self, self.sequence)
        self.scheduled[self.sequence] = (self.now + delay_ms, callback)
        return handle

    def advance(self, delay_ms):
        target = self.now + delay_ms
        while True:
            due = min(((when, number) for number, (when, _) in self.scheduled.items()), default=None)
            if due is None or due[0] > target:
                break
            self.now = max(self.now, due[0])
            self.scheduled.pop(due[1])[1]()
        self.now = target


class Handle:
    def __init__(self, world, number):
        self.world, self.number = world, number

    def cancel(self):
        self.world.scheduled.pop(self.number, None)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), st.integers(0, 3), st.integers(0, 50)),
        st.tuples(st.just("disarm"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.integers(0, 30)),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(steps)
def test_a_key_fires_once_at_its_newest_deadline_and_never_after_it_was_disarmed(history):
    world, fired = World(), []
    timers = Timers(world, world.schedule, lambda key: fired.append((world.now, key)))
    model, expected = {}, []
    for verb, key, amount in history:
        if verb == "arm":
            timers.arm((key,), amount)
            model[key] = world.now + amount
        elif verb == "disarm":
            timers.disarm((key,))
            model.pop(key, None)
        else:
            target = world.now + amount
            for due in sorted({when for when in model.values() if when <= target}):
                expected += [(due, (k,)) for k, when in model.items() if when == due]
            model = {k: when for k, when in model.items() if when > target}
            world.advance(amount)
    assert sorted(fired) == sorted(expected)
    assert len(timers) == len(model)


def test_a_heartbeat_that_rearms_a_session_adds_no_heap_entry():
    world = World()
    timers = Timers(world, world.schedule, lambda key: None)
    for _ in range(10_000):
        timers.arm(("session",), 1_000)
        world.now += 1
    assert len(timers._heap) == 1


def test_one_wake_up_is_scheduled_for_any_number_of_keys():
    world = World()
    timers = Timers(world, world.schedule, lambda key: None)
    for key in range(1_000):
        timers.arm((key,), 1_000 - key)
    assert len(world.scheduled) == 1


def test_after_a_pause_of_the_process_the_sockets_are_read_before_a_deadline_counts():
    """A session that ran out while the server was stopped is saved by the heartbeat that lay in the socket."""
    world, fired = World(), []
    timers = Timers(world, world.schedule, lambda key: fired.append((world.now, key)))
    timers.arm(("saved",), 6_000)
    timers.arm(("lost",), 6_000)
    world.now = 20_000  # SIGSTOP, SIGCONT
    world.advance(0)
    assert fired == []
    timers.arm(("saved",), 6_000)
    world.advance(GRACE_MS)
    assert fired == [(20_000 + GRACE_MS, ("lost",))]
    world.advance(6_000)
    assert fired[1:] == [(26_000, ("saved",))]


def test_deadlines_count_on_a_server_that_is_always_late():
    world, fired = World(), []
    timers = Timers(world, world.schedule, fired.append)
    timers.arm(("session",), 6_000)
    for _ in range(GRACES_MAX + 1):
        assert not fired
        world.now += 10_000
        world.advance(0)
    assert fired == [("session",)]
