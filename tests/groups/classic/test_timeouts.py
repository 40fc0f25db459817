"""Timeouts of sessions, of pending member ids, and of members that do not sync."""

import pytest

from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription

CHANGED = {"range": subscription(["other"])}


def test_a_silent_member_is_removed_after_its_session_timeout():
    h = GroupHarness()
    leader, silent = h.stable(session_ms=10_000)
    h.advance(9_000)
    h.heartbeat("g", leader, 1)
    h.advance(999)
    assert silent in h.group().members
    h.advance(1)
    assert silent not in h.group().members
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.facts_named("member_expired") == [{"group_id": "g", "member_id": silent, "timeout": "session"}]


def test_heartbeats_keep_a_session_alive():
    h = GroupHarness()
    members = h.stable(session_ms=10_000)
    for _ in range(20):
        h.advance(9_999)
        assert all(h.heartbeat("g", member_id, 1).ok for member_id in members)


def test_a_group_is_empty_once_every_session_has_expired():
    h = GroupHarness()
    h.stable(session_ms=10_000)
    h.advance(10_000)
    assert (h.group().state, h.group().generation) == ("Empty", 2)
    assert not h.timers.keys() - {("offsets-expire",)}


def test_the_session_of_a_member_with_a_parked_join_does_not_expire():
    h = GroupHarness()
    leader, follower = h.stable(session_ms=10_000, rebalance_ms=60_000)
    waiting = h.join(member_id=follower, protocols=CHANGED, session_ms=10_000)
    for _ in range(5):
        h.advance(9_000)
        h.heartbeat("g", leader, 1)
    assert waiting.is_parked
    h.join(member_id=leader, session_ms=10_000)
    assert waiting.ok
    h.advance(9_999)
    assert follower in h.group().members, "its session restarted with the generation"


def test_the_session_of_a_member_with_a_parked_sync_does_not_expire():
    h = GroupHarness()
    leader, follower = h.join_new_member(session_ms=10_000), h.join_new_member(session_ms=10_000)
    h.advance(0)
    waiting = h.sync("g", follower, 1)
    for _ in range(5):
        h.advance(9_000)
        h.heartbeat("g", leader, 1)
    h.sync("g", leader, 1, {follower: b"F"})
    assert waiting.reply.assignment == b"F"
    h.advance(9_000)
    h.heartbeat("g", leader, 1)
    assert follower in h.group().members
    h.advance(1_000)
    assert follower not in h.group().members


def test_a_new_members_parked_join_fails_after_the_new_member_join_timeout():
    h = GroupHarness()
    leader, follower = h.stable(rebalance_ms=600_000, session_ms=1_000_000)
    newcomer = h.join(version=3, session_ms=10_000)
    h.advance(299_999)
    assert newcomer.is_parked
    h.advance(1)
    assert (newcomer.error, newcomer.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert set(h.group().members) == {leader, follower}


def test_the_generation_is_formed_when_the_last_missing_member_expires():
    h = GroupHarness()
    leader = h.join_new_member(session_ms=10_000)
    follower = h.join_new_member(session_ms=60_000)
    h.advance(0)
    h.settle()
    waiting = h.join(member_id=follower, protocols=CHANGED, session_ms=60_000)
    h.advance(10_000)
    assert waiting.reply.leader == follower
    assert leader not in h.group().members


def test_a_pending_member_id_expires_after_the_session_timeout():
    h = GroupHarness()
    member_id = h.join(session_ms=10_000).reply.member_id
    h.advance(9_999)
    assert set(h.group().pending_joins) == {member_id}
    h.advance(1)
    assert h.join(member_id=member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_with_a_pending_member_id_disarms_its_timer():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    assert ("classic-pending", "g", member_id) in h.timers
    h.join(member_id=member_id)
    assert ("classic-pending", "g", member_id) not in h.timers


def test_a_rebalance_completes_when_the_pending_member_id_it_waits_for_expires():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(session_ms=10_000)
    waiting = h.join(member_id=leader)
    h.join(member_id=follower)
    h.advance(9_999)
    assert waiting.is_parked
    h.advance(1)
    assert waiting.ok


def test_a_leader_that_does_not_sync_is_replaced_after_the_rebalance_timeout():
    h = GroupHarness()
    timeouts = {"rebalance_ms": 5_000, "session_ms": 600_000}
    leader, follower = h.join_new_member(**timeouts), h.join_new_member(**timeouts)
    h.advance(0)
    waiting = h.sync("g", follower, 1)
    h.advance(4_999)
    assert waiting.is_parked
    h.advance(1)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    reply = h.join(member_id=follower, **timeouts).reply
    assert (reply.generation_id, reply.leader, len(reply.members)) == (2, follower, 1)
    assert h.heartbeat("g", leader, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_does_not_sync_is_removed_after_the_rebalance_timeout():
    h = GroupHarness()
    timeouts = {"rebalance_ms": 5_000, "session_ms": 600_000}
    leader, follower = h.join_new_member(**timeouts), h.join_new_member(**timeouts)
    h.advance(0)
    h.sync("g", leader, 1, {})
    assert h.group().state == "Stable"
    h.advance(5_000)
    assert list(h.group().members) == [leader]
    assert h.group().state == "PreparingRebalance"
    assert h.facts_named("member_expired")[-1] == {"group_id": "g", "member_id": follower, "timeout": "sync"}


def test_members_that_sync_in_time_are_not_removed():
    h = GroupHarness()
    h.stable(rebalance_ms=5_000, session_ms=600_000)
    h.advance(100_000)
    assert h.group().state == "Stable"
    assert not [key for key in h.timers if key[0] == "classic-sync"]


@pytest.mark.parametrize("by", ["an administrator", "time"])
def test_deleting_a_group_disarms_the_timers_of_its_pending_member_ids(by):
    h = GroupHarness(offsets_retention_check_interval_ms=1_000)
    h.join(session_ms=10_000)
    assert [key for key in h.timers if key[0] == "classic-pending"]
    if by == "time":
        h.advance(1_000)
    else:
        h.call(delete_groups, ["g"])
    assert "g" not in h.groups.by_id
    assert list(h.timers) == [("offsets-expire",)]


def test_a_timer_of_a_deleted_group_does_nothing():
    h = GroupHarness()
    member_id = h.join(session_ms=10_000).reply.member_id
    h.groups.remove("g", Kind.CLASSIC)
    before = list(h.records)
    h.advance(20_000)
    assert h.records == before
    for kind in ("classic-session", "classic-pending", "classic-join", "classic-sync"):
        result = h.groups.fire((kind, "g", member_id), h.now_ms)
        assert not result.records
        assert not result.replies
