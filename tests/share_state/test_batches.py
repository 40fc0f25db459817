"""Batches of a share partition are merged as Kafka's coordinator merges them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.share_state.batches import NO_BATCHES, Batches, merged
from coordinator.share_state.share_state import Batch

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def batches(*each):
    return Batches(Batch(*one) for one in each)


@pytest.mark.parametrize(
    ("there", "added", "start_offset", "found"),
    [
        ([], [(5, 9, 2, 1)], 0, [(5, 9, 2, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 1)], 0, [(0, 9, 2, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 2)], 0, [(0, 4, 2, 1), (5, 9, 2, 2)]),
        ([(0, 4, 2, 1)], [(6, 9, 2, 1)], 0, [(0, 4, 2, 1), (6, 9, 2, 1)]),
        ([(0, 9, 0, 1)], [(3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 9, 2, 1)], [(3, 5, 0, 1)], 0, [(0, 9, 2, 1)]),
        ([(0, 9, 2, 1)], [(3, 5, 0, 2)], 0, [(0, 2, 2, 1), (3, 5, 0, 2), (6, 9, 2, 1)]),
        ([(0, 9, 2, 1)], [], 5, [(5, 9, 2, 1)]),
        ([(0, 9, 2, 1)], [(0, 20, 4, 1)], 21, []),
        ([(0, 9, 2, 1)], [(12, 10, 2, 1)], 0, [(0, 9, 2, 1)]),
        ([(5, 9, 2, 1)], [(1, 2, 2, 1)], -1, [(1, 2, 2, 1), (5, 9, 2, 1)]),
    ],
    ids=[
        "first",
        "joined",
        "other count",
        "gap",
        "inside",
        "state loses",
        "count wins",
        "cut",
        "dropped",
        "inverted",
        "no start",
    ],
)
def test_a_batch_is_merged_into_those_that_are_there(there, added, start_offset, found):
    assert merged(batches(*there), batches(*added), start_offset) == batches(*found)


BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: Batch(first, first + length, state, count),
        st.integers(0, 30), st.integers(0, 9), st.sampled_from([AVAILABLE, ACKNOWLEDGED, ARCHIVED]), st.integers(1, 3),
    ),
    max_size=5,
)  # fmt: skip


@given(st.lists(BATCHES, max_size=4), st.integers(-1, 35))
def test_each_offset_has_the_highest_count_then_state_of_all_that_was_written(writes, start_offset):
    found, expected = NO_BATCHES, {}
    for write in writes:
        found = merged(found, write, start_offset)
        for first, last, state, count in write:
            for offset in range(max(first, start_offset), last + 1):
                expected[offset] = max(expected.get(offset, (0, 0)), (count, state))
    assert {
        offset: (each.delivery_count, each.delivery_state)
        for each in found
        for offset in range(each.first_offset, each.last_offset + 1)
    } == expected
    for one, other in pairwise(found):
        assert one.last_offset < other.first_offset
        assert one.last_offset + 1 < other.first_offset or one[2:] != other[2:], "adjacent equals are one batch"
