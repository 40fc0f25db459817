"""Limits on the number of groups and on the pending member ids of a group. Existing groups and members are always served."""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.groups.consumer.consumer_world import ConsumerHarness
from tests.groups.harness import GroupHarness

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


def test_no_classic_group_is_created_beyond_the_limit():
    h = GroupHarness(limit_groups=2)
    assert h.join("a", version=3).is_parked
    assert h.join("b", version=3).is_parked
    assert h.join("c", version=3).error is FULL
    assert "c" not in h.groups.by_id
    assert h.join("a", version=3).is_parked, "an existing group accepts new members"


def test_consumer_groups_count_towards_the_limit():
    h = ConsumerHarness(limit_groups=2)
    assert h.join("a", version=3).is_parked
    assert h.join_modern("b").ok
    assert h.join_modern("c").error is FULL
    assert h.join_modern("b", "another").ok


def test_a_commit_creates_no_group_beyond_the_limit():
    h = ConsumerHarness(limit_groups=1)
    assert h.commit("a", "", -1, [("t", 0)]) == [ErrorCode.NONE]
    assert h.commit("b", "", -1, [("t", 0)]) == [FULL]
    assert h.commit("a", "", -1, [("t", 1)]) == [ErrorCode.NONE]


def test_the_limit_counts_the_groups_of_all_shards():
    h = GroupHarness(limit_groups=5)
    h.groups._count_all = lambda: 5
    assert h.join("a", version=3).error is FULL


@pytest.mark.parametrize("joined", [False, True])
def test_each_group_has_a_limited_number_of_pending_member_ids(joined):
    h = GroupHarness(limit_pending_members=3)
    replies = [h.join("g").reply for _ in range(3)]
    assert {reply.error_code for reply in replies} == {ErrorCode.MEMBER_ID_REQUIRED}
    assert h.join("g").error is FULL
    assert h.join("other").error is ErrorCode.MEMBER_ID_REQUIRED
    if joined:
        assert h.join("g", member_id=replies[0].member_id).is_parked
    else:
        h.advance(30_000)  # the session timeout of the pending member ids
    assert h.join("g").error is ErrorCode.MEMBER_ID_REQUIRED
