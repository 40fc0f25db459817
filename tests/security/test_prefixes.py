"""The longest prefix of a name is found in a few steps, however many prefixes begin with each other."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.security.prefixes import Prefixes

NAMES = st.text("ab", min_size=1, max_size=40) | st.integers(1, 40).map(lambda length: "a" * length)


def prefixes_of(names):
    prefixes = Prefixes()
    for name in names:
        prefixes.add(name)
    return prefixes


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(st.sets(NAMES, max_size=60), st.lists(st.tuples(NAMES, st.sampled_from(["", "a", "b", "c"])), max_size=10))
def test_it_is_the_one_that_a_look_at_all_of_them_finds(names, asked):
    prefixes = prefixes_of(names)
    for name in [*names, *(name + end for name, end in asked)]:
        assert prefixes.longest(name) == max((each for each in names if name.startswith(each)), key=len, default=None)
    for name in names:
        shorter = [each for each in names if each != name and name.startswith(each)]
        assert prefixes.shorter(name) == max(shorter, key=len, default=None)


class Counting(dict):
    looked_up = 0

    def __getitem__(self, key):
        self.looked_up += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("depth", [249, 5_000])
def test_prefixes_that_begin_with_each_other_take_a_few_steps(depth):
    prefixes = prefixes_of("a" * length for length in range(1, depth + 1))
    assert prefixes.longest("b") is None
    steps = prefixes._far = Counting(prefixes._far)
    for length in range(depth + 1):
        steps.looked_up = 0
        assert prefixes.longest("a" * length + "b") == ("a" * length or None)
        assert steps.looked_up <= 3 * math.log2(depth) + 3
