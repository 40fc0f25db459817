"""The timers of groups with epochs remove a member as long as it is there, and is what the timer watched."""

from coordinator.groups.consumer.update import ConsumerUpdate
from tests.groups.consumer.consumer_world import ConsumerHarness


def test_a_timer_of_what_has_ended_removes_nobody():
    h = ConsumerHarness()
    h.join_modern()
    timers, before = ConsumerUpdate.TIMERS, len(h.records)
    for key in (timers.session("g", "gone"), timers.session("gone", "m"), timers.rebalance("g", "m")):
        assert not h.groups.fire(key, h.now_ms).records
    h._apply(h.groups.fire(timers.session("g", "m"), h.now_ms))
    assert (len(h.records) > before, list(h.consumer().members)) == (True, [])


def test_a_member_that_is_removed_leaves_no_timer():
    h = ConsumerHarness()
    h.join_modern()
    h.beat(epoch=-1)
    assert not [key for key in h.timers if key[0].startswith("consumer")]
