"""The real and the manual clock, and the ids of the real entropy, as the server relies on them."""

from uuid import UUID

import pytest

from coordinator.world.clock import RealClock
from coordinator.world.entropy import RealEntropy
from coordinator_lab.simulation.clock import ManualClock


def test_real_time_is_whole_milliseconds_and_does_not_run_backwards():
    clock = RealClock()
    assert clock.wall_ms() > 1_700_000_000_000
    assert isinstance(clock.monotonic_ms(), int)
    assert clock.monotonic_ms() <= clock.monotonic_ms()


def test_a_manual_clock_stands_until_it_is_moved():
    clock = ManualClock(wall_ms=1000, monotonic_ms=5)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (1000, 5)
    clock.advance(10)
    clock.set_wall(7)
    assert (clock.wall_ms(), clock.monotonic_ms()) == (7, 15)
    with pytest.raises(AssertionError):
        clock.advance(-1)


def test_ids_are_random_uuids_in_their_usual_form():
    entropy = RealEntropy()
    ids = [entropy.uuid() for _ in range(100)]
    assert len(set(ids)) == 100
    assert all(UUID(text).version == 4 and str(UUID(text)) == text for text in ids)
    assert len(entropy.bytes(16)) == 16
