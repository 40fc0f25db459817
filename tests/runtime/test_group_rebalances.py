"""Groups that rebalance often: in at least 5 of the last 10 minutes."""

import pytest

from coordinator.runtime import group_rebalances
from coordinator.runtime.group_rebalances import GroupRebalances
from coordinator.runtime.result import Fact


class Watched:
    """The watch, on a clock that the test sets."""

    def __init__(self) -> None:
        self.minute = 0
        self.watch = GroupRebalances(lambda: self.minute * 60_000)

    def rebalance(self, *minutes: int, group: str = "g") -> None:
        for self.minute in minutes:
            self.watch.count(Fact("rebalance_started", {"group_id": group}))

    def often(self, minute: int) -> int:
        self.minute = minute
        return self.watch.often()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_group_rebalances_often_from_its_fifth_minute_until_too_few_are_left_in_the_last_ten(watched):
    watched.rebalance(0, 2, 4, 6)
    assert watched.often(6) == 0
    watched.rebalance(8)
    assert [watched.often(minute) for minute in (8, 9, 10, 1000)] == [1, 1, 0, 0]


def test_many_rebalances_within_a_minute_count_once(watched):
    watched.rebalance(*[0] * 50, *[1] * 50)
    assert watched.often(1) == 0


def test_rebalances_of_different_groups_do_not_add_up(watched):
    for group in range(500):
        watched.rebalance(group // 50, group=f"calm-{group}")
    assert watched.often(9) == 0
    watched.rebalance(10, 11, 12, 13, 14, group="one")
    assert watched.often(14) == 1


def test_named_groups_are_counted_and_no_others():
    watch = GroupRebalances(lambda: 0, ["named", "idle"])
    for group in ("named", "named", "other"):
        watch.count(Fact("rebalance_started", {"group_id": group}))
    assert watch.named == {"named": 2, "idle": 0}


def test_other_facts_do_not_count(watched):
    for watched.minute in range(10):
        watched.watch.count(Fact("member_expired", {"group_id": "g"}))
    assert watched.often(9) == 0


def test_the_group_whose_last_rebalance_is_oldest_is_forgotten_first(watched, monkeypatch):
    monkeypatch.setattr(group_rebalances, "GROUPS_MAX", 2)
    watched.rebalance(0, 1, 2, 3, group="stormy")
    watched.rebalance(3, group="old")
    watched.rebalance(4, group="stormy")
    watched.rebalance(4, group="new")
    assert watched.often(4) == 1
    watched.rebalance(5, group="newer")
    watched.rebalance(5, group="newest")
    assert watched.often(5) == 0


def test_a_group_is_forgotten_when_it_is_deleted_or_its_last_rebalance_is_older_than_the_window(watched):
    watched.rebalance(0, group="old")
    watched.rebalance(1, group="deleted")
    watched.watch.count(Fact("group_deleted", {"group_id": "deleted", "offsets": 0}))
    watched.rebalance(10, group="new")
    assert len(watched.watch) == 1
