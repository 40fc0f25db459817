"""Heartbeat: the error code in each state of the group."""

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription


def test_heartbeat_of_a_stable_member_returns_no_error():
    h = GroupHarness()
    for member_id in h.stable():
        for version in range(5):
            assert h.heartbeat("g", member_id, 1, version=version).ok


def test_heartbeat_in_completing_rebalance_returns_no_error_even_with_a_parked_sync():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    h.sync("g", follower, 1)
    assert h.heartbeat("g", leader, 1).ok
    assert h.heartbeat("g", follower, 1).ok


def test_heartbeat_in_preparing_rebalance_returns_rebalance_in_progress():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=follower, protocols={"range": subscription(["other"])})
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.heartbeat("g", follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeat_checks_the_generation_before_the_state():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader)
    assert h.heartbeat("g", follower, 0).error is ErrorCode.ILLEGAL_GENERATION
    assert h.heartbeat("g", follower, 2).error is ErrorCode.ILLEGAL_GENERATION


def test_heartbeat_checks_the_member_id_before_the_generation():
    h = GroupHarness()
    h.stable()
    assert h.heartbeat("g", "unknown", 0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_to_an_unknown_or_empty_group_returns_unknown_member_id():
    h = GroupHarness()
    assert h.heartbeat("unknown-group", "m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = h.stable()
    h.leave("g", leader, follower)
    assert h.heartbeat("g", leader, 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_of_a_pending_member_returns_unknown_member_id():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    assert h.heartbeat("g", member_id, 0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_checks_the_instance_id_before_the_generation():
    h = GroupHarness()
    one, two = h.stable(static=True)
    assert h.heartbeat("g", two, 1, instance="i1").ok
    assert h.heartbeat("g", two, 0, instance="unknown").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat("g", two, 0, instance="i0").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.heartbeat("g", one, 1).ok, "a static member that omits its instance id is not fenced"
