"""Counting the bytes that become stable, with any number of open transactions."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.topics.stability import PLACES_MAX, Stability


def test_bytes_behind_one_open_transaction_share_a_few_counters():
    stability = Stability()
    for offset in range(10_000):
        stability.hold(offset, 10, begins=True)
    assert len(stability._waiting) == PLACES_MAX
    assert stability.release(PLACES_MAX - 1) == 10 * (PLACES_MAX - 1)
    assert stability.release(10_000) == 10 * (10_000 - PLACES_MAX + 1)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9), st.booleans()), max_size=40))
def test_every_byte_is_released_once_and_when_it_is_stable(steps):
    """Producer 0 writes outside of transactions; each of the others has one open until it ends it; all is durable at once."""
    stability, opened, held = Stability(), {}, []
    released = 0
    for offset, (producer, size, ends) in enumerate(steps):
        marker = bool(producer and ends and producer in opened)
        begins = bool(producer and not marker and producer not in opened)
        if begins:
            opened[producer] = offset
        if marker:
            del opened[producer]
        stable_offset = min(opened.values(), default=offset + 1)
        if offset >= stable_offset:
            stability.hold(offset, size, begins=begins)
            held.append((offset, size))
        released += stability.release(stable_offset)
        assert released == sum(size for at, size in held if at < stable_offset)
