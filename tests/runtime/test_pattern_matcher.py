"""Patterns are matched outside the loop in bounded slices, and no slow one holds up the others."""

import pytest

from coordinator.protocol.patterns import BYTES_MAX, BadPattern, compile_pattern
from coordinator.runtime.pattern_matcher import SLICE_STEPS, PatternMatcher

SLOW = "(.?){900}(.?){999}n*"
NAMES = [f"topic-{number}-nnnnnnnnnnnn" for number in range(100)]
ALL = frozenset(NAMES)


def wanted():
    return True


class Worker:
    """Runs jobs when the test says so."""

    def __init__(self):
        self.jobs = []
        self.slices = 0

    def __call__(self, function, done):
        self.jobs.append((function, done))

    def run(self, count=-1):
        while self.jobs and count:
            count -= 1
            self.slices += 1
            function, done = self.jobs.pop(0)
            try:
                outcome = function()
            except BadPattern as error:
                outcome = error
            done(outcome)


@pytest.fixture
def worker():
    return Worker()


@pytest.fixture
def steps():
    """The steps in which each answer was given."""
    return []


@pytest.fixture
def matcher(worker, steps):
    return PatternMatcher(worker, lambda pieces: steps.append(sum(1 for _ in pieces)), BYTES_MAX)


def test_a_name_must_match_as_a_whole(worker, matcher):
    found = []
    matcher(["a.*", "b", "["], ["a", "ab", "ba", "b"], 1, found.append, wanted)
    worker.run()
    assert found == [{"a.*": {"a", "ab"}, "b": {"b"}, "[": None}]


def test_names_are_asked_about_once_and_in_pieces_and_hidden_ones_left_out(worker, matcher, steps):
    names, found, asked = [f"t{number}" for number in range(450)], [], []

    def may_see(name):
        asked.append(name)
        return name.endswith("7")

    matcher(["t.*", "t1.*", "[", "u"], [*names, "x"], 1, found.append, wanted, may_see)
    worker.run()
    seen = {name for name in names if name.endswith("7")}
    assert found == [{"t.*": seen, "t1.*": {name for name in seen if name[1] == "1"}, "[": None, "u": set()}]
    assert sorted(asked) == sorted(names)
    assert steps == [4]


def test_what_nobody_wants_any_more_when_its_turn_comes_takes_no_slice(worker, matcher):
    """A client that joins and leaves a thousand groups would keep the thread busy for an hour."""
    found, members = [], {"stays", "goes"}
    matcher(["topic.*"], NAMES, 1, found.append, wanted)
    for member in ("goes", "stays"):
        matcher([member], [member], 2, found.append, lambda member=member: member in members)
    members.remove("goes")
    worker.run()
    assert found == [{"topic.*": ALL}, {}, {"stays": {"stays"}}]
    assert worker.slices == 2


def test_a_slow_pattern_takes_slices_of_bounded_work(worker, matcher):
    found = []
    matcher([SLOW], NAMES, 1, found.append, wanted)
    worker.run()
    assert found == [{SLOW: ALL}]
    steps = [compile_pattern(SLOW, BYTES_MAX).programsize * (len(name) + 1) for name in NAMES]
    assert worker.slices * (SLICE_STEPS + max(steps)) >= sum(steps)


def test_an_ordinary_pattern_overtakes_slow_ones_that_came_earlier(worker, matcher):
    done = []
    for number in range(5):
        matcher([f"{SLOW}{number}?"], NAMES, 1, lambda _, number=number: done.append(number), wanted)
    worker.run(5)
    matcher(["topic.*"], NAMES, 1, lambda _: done.append("ordinary"), wanted)
    worker.run(2)
    assert done == ["ordinary"]
    worker.run()
    assert sorted(done[1:]) == list(range(5))


def test_a_pattern_is_matched_once_for_all_that_ask_in_one_version(worker, matcher):
    found = []
    matcher(["topic.*", "none"], NAMES, 1, found.append, wanted)
    worker.run()
    matcher(["topic.*"], NAMES, 1, found.append, wanted)
    assert found[1] == {"topic.*": ALL}
    assert worker.jobs == []
    matcher(["topic.*"], NAMES[:1], 2, found.append, wanted)
    worker.run()
    assert found[2] == {"topic.*": {NAMES[0]}}


def test_names_of_no_version_are_matched_each_time(worker, matcher):
    found = []
    for names in (["a"], ["b"]):
        matcher(["a|b"], names, None, found.append, wanted)
        worker.run()
    assert found == [{"a|b": {"a"}}, {"a|b": {"b"}}]


def test_nothing_is_kept_of_a_pattern_but_what_it_matched(worker, matcher):
    matcher([SLOW], NAMES, 1, lambda _: None, wanted)
    worker.run()
    assert matcher._compiled is None
    assert matcher._kept_bytes < 100 * len(NAMES)


def test_patterns_that_would_take_too_much_memory_are_refused():
    with pytest.raises(BadPattern, match="more memory than limit"):
        compile_pattern("(.?){999}" * 20, BYTES_MAX)
