"""Members of streams groups that are silent, give up their tasks too late, or leave."""

import pytest

from coordinator.groups.streams.group import State
from coordinator.groups.streams.member import MemberState
from coordinator.protocol.errors import ErrorCode
from tests.groups.streams.streams_world import INTERVAL_MS, SESSION_MS, StreamsHarness, active


@pytest.fixture
def h():
    return StreamsHarness()


def _two(h):
    """Member `a` must give up half of its tasks."""
    h.arrive("a", rebalance_ms=10_000)
    h.arrive("b")
    h.advance(INTERVAL_MS)
    h.beat("b", 2)
    assert active(h.beat("a", 2)) is not None
    assert h.member("a").state is MemberState.UNREVOKED_TASKS


def test_a_silent_member_is_removed_after_its_session(h):
    h.arrive()
    h.advance(SESSION_MS - 1)
    assert h.beat("m", 2).ok
    h.advance(SESSION_MS)
    assert h.beat("m", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (h.streams().state, h.streams().group_epoch, h.streams().target_epoch) == (State.EMPTY, 3, 3)


def test_sessions_start_again_after_a_crash(h):
    h.arrive()
    h.advance(SESSION_MS - 1)
    h.restart()
    h.advance(SESSION_MS - 1)
    assert "m" in h.streams().members
    h.advance(1)
    assert h.streams().members == {}


def test_a_member_that_gives_up_its_tasks_too_late_is_removed_despite_heartbeats(h):
    _two(h)
    h.advance(9_999)
    h.beat("a", 2)
    h.advance(1)
    assert h.streams().members.keys() == {"b"}
    assert h.streams().active == {}


def test_the_time_to_give_up_tasks_also_runs_after_a_crash(h):
    _two(h)
    h.restart()
    h.advance(10_000)
    assert "a" not in h.streams().members


def test_a_member_that_gives_up_its_tasks_in_time_stays(h):
    _two(h)
    kept = {"0": sorted(h.member("a").assigned.active["0"])}
    assert h.beat("a", 2, active=kept).reply.member_epoch == 3
    h.advance(20_000)
    assert h.streams().members.keys() == {"a", "b"}


def test_the_tasks_of_a_member_that_leaves_go_to_the_others(h):
    _two(h)
    h.beat("a", -1)
    h.advance(INTERVAL_MS)
    assert active(h.beat("b", 3, active={})) == {"0": [0, 1, 2, 3]}


def test_the_last_member_leaves_a_target_of_its_epoch_behind(h):
    h.arrive()
    h.beat("m", -1)
    assert (h.streams().group_epoch, h.streams().target_epoch, h.streams().target_timestamp_ms) == (3, 3, 0)


def test_a_member_in_an_unknown_state_must_start_again_without_tasks(h):
    """Its record was written by a newer Kafka."""
    h.arrive()
    record = h.records[-1]
    record.value.state = 99
    h.restart()
    assert h.member().state is MemberState.UNKNOWN
    assert h.beat("m", 2).error is ErrorCode.FENCED_MEMBER_EPOCH
    h.advance(INTERVAL_MS)
    request = h.arrive()
    assert active(request) == {"0": [0, 1, 2, 3]}
