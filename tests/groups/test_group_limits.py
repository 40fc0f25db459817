"""Groups, and the ids that a group gives out, have limits; what is there already is served beyond them."""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.groups.consumer.consumer_world import ConsumerHarness
from tests.groups.harness import GroupHarness

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


def test_classic_groups_up_to_the_limit_are_made_and_no_more():
    h = GroupHarness(limit_groups=2)
    assert h.join("a", version=3).is_parked
    assert h.join("b", version=3).is_parked
    assert h.join("c", version=3).error is FULL
    assert "c" not in h.groups.by_id
    assert h.join("a", version=3).is_parked, "a group that is there takes members"


def test_consumer_groups_count_too_and_a_group_that_turns_into_one_is_none_more():
    h = ConsumerHarness(limit_groups=2)
    assert h.join("a", version=3).is_parked
    assert h.join_modern("b").ok
    assert h.join_modern("c").error is FULL
    assert h.join_modern("b", "another").ok


def test_a_commit_makes_a_group_only_within_the_limit():
    h = ConsumerHarness(limit_groups=1)
    assert h.commit("a", "", -1, [("t", 0)]) == [ErrorCode.NONE]
    assert h.commit("b", "", -1, [("t", 0)]) == [FULL]
    assert h.commit("a", "", -1, [("t", 1)]) == [ErrorCode.NONE]


def test_the_groups_of_all_shards_count():
    h = GroupHarness(limit_groups=5)
    h.groups._count_all = lambda: 5
    assert h.join("a", version=3).error is FULL


@pytest.mark.parametrize("joined", [False, True])
def test_ids_that_nobody_used_yet_are_limited_by_group(joined):
    h = GroupHarness(limit_pending_members=3)
    given = [h.join("g").reply for _ in range(3)]
    assert {reply.error_code for reply in given} == {ErrorCode.MEMBER_ID_REQUIRED}
    assert h.join("g").error is FULL
    assert h.join("other").error is ErrorCode.MEMBER_ID_REQUIRED
    if joined:
        assert h.join("g", member_id=given[0].member_id).is_parked
    else:
        h.advance(30_000)  # the session of those that never came
    assert h.join("g").error is ErrorCode.MEMBER_ID_REQUIRED
