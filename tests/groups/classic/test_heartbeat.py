"""Heartbeat: what a member learns by it, in each state."""

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription


def test_a_member_of_a_stable_group_is_told_that_all_is_well():
    h = GroupHarness()
    for member_id in h.stable():
        for version in range(5):
            assert h.heartbeat("g", member_id, 1, version=version).ok


def test_in_completing_all_is_well_too_even_for_a_member_whose_sync_is_parked():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    h.sync("g", follower, 1)
    assert h.heartbeat("g", leader, 1).ok
    assert h.heartbeat("g", follower, 1).ok


def test_in_preparing_everybody_is_called_to_join_even_a_member_whose_join_is_parked():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=follower, protocols={"range": subscription(["other"])})
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.heartbeat("g", follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_generation_is_checked_before_the_state():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader)
    assert h.heartbeat("g", follower, 0).error is ErrorCode.ILLEGAL_GENERATION
    assert h.heartbeat("g", follower, 2).error is ErrorCode.ILLEGAL_GENERATION


def test_the_member_is_checked_before_the_generation():
    h = GroupHarness()
    h.stable()
    assert h.heartbeat("g", "nobody", 0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_unknown_and_empty_groups_know_nobody():
    h = GroupHarness()
    assert h.heartbeat("nowhere", "m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = h.stable()
    h.leave("g", leader, follower)
    assert h.heartbeat("g", leader, 2).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_only_has_its_id_is_unknown():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    assert h.heartbeat("g", member_id, 0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_without_a_name_is_refused():
    assert GroupHarness().heartbeat("", "m", 1).error is ErrorCode.INVALID_GROUP_ID


def test_instances_are_checked_first():
    h = GroupHarness()
    one, two = h.stable(static=True)
    assert h.heartbeat("g", two, 1, instance="i1").ok
    assert h.heartbeat("g", two, 0, instance="nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat("g", two, 0, instance="i0").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.heartbeat("g", one, 1).ok, "a static member that leaves its instance id out is not fenced"
