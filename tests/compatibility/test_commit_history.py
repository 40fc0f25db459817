"""How long clients had no answer: what the report of a run with killed workers is made of."""

import pytest

from tests.compatibility.commit_history import Fault, History


def history(*times: float) -> History:
    """Of one group with commits at these times, and faults after 10 and after 20 seconds."""
    found = History({"group": "kind"}, {"group": 1}, clock=lambda: 40.0)
    found.times["group"] += times
    found.faults += [Fault("kill", 10.0), Fault("stop", 20.0)]
    return found


EVERY_SECOND = tuple(range(5, 40))


@pytest.mark.parametrize(
    ("times", "silences"),
    [
        (EVERY_SECOND, [1.0, 1.0]),
        ((5.0, 9.0, 13.0, *EVERY_SECOND[10:]), [3.0, 1.0]),  # from the fault on: 10 to 13
        ((*range(5, 16), 18.0, *range(19, 40)), [3.0, 1.0]),
        ((*range(5, 20), 19.5, *range(26, 40)), [1.0, 6.0]),  # it begins just before the next fault
        ((*range(5, 12), *range(28, 40)), [17.0, 8.0]),  # it goes on beyond the next fault, and is counted there, too
    ],
)
def test_a_fault_has_the_longest_silence_that_begins_before_the_next(times, silences):
    """A silence that is longer than the time between two faults is not cut off."""
    found = history(*times)
    assert [found.silence("group", begin, end) for begin, end in ((10.0, 20.0), (20.0, 30.0))] == silences


def test_the_report_has_affected_groups_of_each_kind_of_client_and_of_all():
    """By fault: how many were silent for longer than a second, the median and the worst."""
    found = history(*range(5, 11), *range(15, 21), *range(26, 41))
    assert found.report() == [
        "kind: kill n=1 median=5.0s worst=5.0s, stop n=1 median=6.0s worst=6.0s",
        "all: kill n=1 median=5.0s worst=5.0s, stop n=1 median=6.0s worst=6.0s",
    ]
