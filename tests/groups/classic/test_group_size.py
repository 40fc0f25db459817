"""group.max.size: which members are accepted when more want to join than the group may have."""

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription

CHANGED = {"range": subscription(["other"])}


def full_group():
    h = GroupHarness(group_max_size=4)
    return h, h.stable(members=4)


def test_a_full_stable_group_rejects_new_members():
    h, _ = full_group()
    for options in ({"version": 3}, {}, {"instance": "s"}):
        reply = h.join(**options).reply
        assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert h.group().state == "Stable"


def test_a_full_group_in_completing_rebalance_rejects_new_members():
    h, (leader, *others) = full_group()
    h.join(member_id=leader)
    for member_id in others:
        h.join(member_id=member_id)
    assert h.group().state == "CompletingRebalance"
    assert h.join(version=3).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_of_a_full_group_may_rejoin():
    h, (leader, follower, *_) = full_group()
    assert h.join(member_id=follower).ok
    assert h.join(member_id=leader).is_parked


def test_preparing_rebalance_accepts_the_first_members_to_join_up_to_the_limit():
    h, (leader, second, third, fourth) = full_group()
    h.join(member_id=leader)
    fifth = h.join(version=3)
    assert fifth.is_parked
    h.join(member_id=second)
    last = h.join(member_id=third)
    late = h.join(member_id=fourth).reply
    assert (late.error_code, late.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert fifth.is_parked, "a rejected join does not complete the rebalance"
    h.advance(60_000)
    assert fifth.ok
    assert last.ok
    assert len(h.group().members) == 4
    assert fourth not in h.group().members
    assert ("classic-session", "g", fourth) not in h.timers


def test_a_parked_member_of_a_full_group_may_repeat_its_join():
    h, (leader, second, third, _) = full_group()
    h.join(member_id=leader)
    h.join(version=3)
    h.join(member_id=second)
    h.join(member_id=third)
    assert h.group().state == "PreparingRebalance"
    assert h.join(member_id=third).is_parked


def test_a_loaded_group_above_a_lowered_limit_rebalances():
    h, members = full_group()
    h.restart(group_max_size=2)
    assert h.group().state == "PreparingRebalance"
    for member_id in members[:2]:
        assert h.join(member_id=member_id).is_parked
    for member_id in members[2:]:
        assert h.join(member_id=member_id).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    h.advance(60_000)
    assert h.group().state == "CompletingRebalance"
    assert set(h.group().members) == set(members[:2])
