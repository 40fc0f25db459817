"""A leader that cannot assign says why; every member of the generation receives the error, and the next join starts again."""

from typing import Any

import pytest

from coordinator.groups.classic.describe import details
from coordinator.groups.classic.leader_extensions import FAILURES
from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, SentRequest

WHY = "the assignor has no metadata of t"


def completing(h: GroupHarness, members: int = 3) -> list[str]:
    ids = [h.join_new_member() for _ in range(members)]
    h.advance(0)
    assert h.group().state.value == "CompletingRebalance"
    return ids


def fail(
    h: GroupHarness, leader: str, error: int = ErrorCode.UNKNOWN_SERVER_ERROR, message: str | None = WHY, **more: Any
) -> SentRequest:
    return h.sync("g", leader, 1, error_code=error, error_message=message, **more)


def test_parked_and_later_members_receive_the_leaders_error_and_reason():
    h = GroupHarness()
    leader, parked, later = completing(h)
    waiting = h.sync("g", parked, 1)
    requests = [fail(h, leader), waiting, h.sync("g", later, 1), h.sync("g", leader, 1, {leader: b"too late"})]
    assert [(each.error.name, each.reply.error_message, each.reply.assignment) for each in requests] == [
        ("UNKNOWN_SERVER_ERROR", WHY, b"")
    ] * 4
    assert h.group().state.value == "CompletingRebalance"


def test_before_v4_a_member_receives_the_error_without_the_reason():
    h = GroupHarness()
    leader, follower, _ = completing(h)
    fail(h, leader)
    reply = h.sync("g", follower, 1, version=3).reply
    assert (reply.error_code, reply.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


@pytest.mark.parametrize("who", [0, 1, 2], ids=["leader", "parked", "late"])
def test_any_join_starts_the_next_rebalance(who):
    h = GroupHarness()
    ids = completing(h)
    h.sync("g", ids[1], 1)
    fail(h, ids[0])
    assert h.join("g", ids[who]).is_parked
    assert h.group().state.value == "PreparingRebalance"
    assert h.facts_named("rebalance_started")[-1]["cause"] == "a member joins again after the leader could not assign"
    h.settle()
    assert h.group().generation == 2


def test_heartbeats_keep_members_and_commits_are_refused_until_somebody_joins():
    h = GroupHarness()
    leader, follower, _ = completing(h)
    fail(h, leader)
    assert h.heartbeat("g", follower, 1).ok
    with pytest.raises(Exception, match="REBALANCE_IN_PROGRESS"):
        h.group().commit_timers(follower)


def test_members_that_never_ask_are_removed_by_the_sync_timer():
    h = GroupHarness()
    ids = completing(h)
    h.sync("g", ids[1], 1)
    fail(h, ids[0])
    for _ in range(3):
        h.advance(20_000)
        for member_id in ids:
            h.heartbeat("g", member_id, 1)
    assert list(h.group().members) == ids[:2]
    assert h.group().state.value == "PreparingRebalance"


def test_members_that_do_nothing_lose_their_sessions_until_the_group_is_empty():
    h = GroupHarness()
    leader, follower = completing(h, 2)
    h.sync("g", follower, 1)
    fail(h, leader)
    h.advance(200_000)
    assert (h.group().state.value, h.group().failure) == ("Empty", None)


def test_the_session_of_a_parked_member_starts_again_when_it_receives_the_error():
    h = GroupHarness()
    leader, follower = completing(h, 2)
    h.sync("g", follower, 1)
    h.advance(20_000)
    fail(h, leader)
    h.advance(29_000)
    assert follower in h.group().members


@pytest.mark.parametrize("error", sorted(FAILURES))
def test_errors_that_a_leader_may_give(error):
    h = GroupHarness()
    leader, follower, _ = completing(h)
    assert fail(h, leader, error).error is error
    assert h.sync("g", follower, 1).error is error


@pytest.mark.parametrize(
    "error",
    ["REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "NOT_COORDINATOR",
     "COORDINATOR_NOT_AVAILABLE", "GROUP_AUTHORIZATION_FAILED", "INVALID_REQUEST"],
)  # fmt: skip
def test_errors_on_which_clients_act_by_themselves_are_refused(error):
    h = GroupHarness()
    leader, follower, _ = completing(h)
    refused = fail(h, leader, ErrorCode[error])
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert h.group().failure is None
    assert h.sync("g", follower, 1).is_parked


def test_an_error_code_that_nobody_knows_is_refused():
    h = GroupHarness()
    leader, *_ = completing(h)
    assert fail(h, leader, 31_000).reply.error_message == "a leader may not give its members the error 31000"


def test_only_the_leader_may_fail_the_generation():
    h = GroupHarness()
    leader, follower, _ = completing(h)
    assert fail(h, follower).error is ErrorCode.INVALID_REQUEST
    assert h.sync("g", leader, 1, {leader: b"L"}).reply.assignment == b"L"


def test_a_failure_with_assignments_or_in_stable_is_refused():
    h = GroupHarness()
    leader, *_ = completing(h)
    assert fail(h, leader, assignments={leader: b"L"}).error is ErrorCode.INVALID_REQUEST
    assert fail(h, leader, resync=1).error is ErrorCode.INVALID_REQUEST
    h.sync("g", leader, 1, {leader: b"L"})
    assert fail(h, leader).error is ErrorCode.INVALID_REQUEST
    assert h.group().members[leader].assignment == b"L"


def test_a_long_reason_is_cut_and_an_empty_one_is_none():
    for given, kept in (("x" * 10_000, "x" * 255), ("", None), (None, None)):
        h = GroupHarness()
        leader, *_ = completing(h)
        assert fail(h, leader, message=given).reply.error_message == kept


def test_a_crash_forgets_the_failure_and_members_can_go_on():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join("g", leader)
    h.join("g", follower)
    h.sync("g", leader, 2, error_code=ErrorCode.POLICY_VIOLATION)
    h.restart()
    assert h.group().failure is None
    assert h.join("g", leader).is_parked
    h.settle()


def test_the_failure_is_in_the_view_and_in_the_event_log():
    h = GroupHarness()
    leader, follower, _ = completing(h)
    fail(h, leader, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    view = details(h.groups, h.group())
    failure = {
        "generation": 1, "leader": leader, "error": "TOPIC_AUTHORIZATION_FAILED", "reason": WHY, "failed_ms": h.now_ms,
    }  # fmt: skip
    assert view["assignment_failure"] == view["rebalances"][-1]["assignment_failure"] == failure
    (event,) = h.events_of("AssignmentFailed")
    assert (event.epoch, event.member_id, event.members, event.error_code, event.reason) == (1, leader, 3, 29, WHY)
    h.join("g", follower)
    view = details(h.groups, h.group())
    assert (view["assignment_failure"], view["rebalances"][-2]["assignment_failure"]) == (None, failure)
