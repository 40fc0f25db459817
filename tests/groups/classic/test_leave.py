"""LeaveGroup: the result for each member, and the effect on the rest of the group."""

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness


def results(request):
    assert request.ok
    return [ErrorCode(member.error_code).name for member in request.reply.members]


def test_before_v3_the_result_is_the_top_level_error_code():
    h = GroupHarness()
    leader, follower = h.stable()
    for version in range(3):
        assert h.leave("unknown-group", "m", version=version).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert h.leave("g", "m", version=version).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.leave("g", follower, version=0).ok
    assert h.leave("g", leader, version=2).ok


def test_a_batch_returns_results_in_the_order_of_the_request():
    h = GroupHarness()
    leader, follower = h.stable()
    request = h.leave("g", "m", ("", "i"), follower, follower)
    assert [(member.member_id, member.group_instance_id) for member in request.reply.members] == [
        ("m", None), ("", "i"), (follower, None), (follower, None),
    ]  # fmt: skip
    assert results(request) == ["UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID", "NONE", "UNKNOWN_MEMBER_ID"]
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_instance_id_that_a_batch_names_twice_is_unknown_the_second_time():
    h = GroupHarness()
    (member_id,) = h.stable(members=1, static=True)
    request = h.leave("g", ("", "i0"), ("", "i0"), (member_id, "i0"))
    assert results(request) == ["NONE", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"]
    assert h.group().state == "Empty"


def test_leave_fails_for_an_unknown_group():
    assert results(GroupHarness().leave("unknown-group", "m")) == ["UNKNOWN_MEMBER_ID"]


def test_an_empty_batch_returns_no_results():
    h = GroupHarness()
    h.stable()
    assert results(h.leave("g")) == []
    assert h.group().state == "Stable"


def test_a_batch_starts_one_rebalance():
    h = GroupHarness()
    leader, second, third, fourth = h.stable(members=4)
    h.leave("g", second, third)
    assert h.join(member_id=leader).is_parked
    assert h.join(member_id=fourth).reply.generation_id == 2
    assert len(h.facts_named("rebalance_started")) == 2


def test_the_group_is_written_as_empty_when_the_last_member_leaves():
    h = GroupHarness()
    leader, follower = h.stable()
    assert results(h.leave("g", leader, follower)) == ["NONE", "NONE"]
    value = h.records[-1].value
    assert (value.generation, value.members, value.protocol, value.leader) == (2, [], None, None)
    assert value.protocol_type == "consumer"
    assert h.group().state == "Empty"


def test_a_pending_member_can_leave():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    assert results(h.leave("g", member_id)) == ["NONE"]
    assert h.join(member_id=member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not h.timers.keys() & {("classic-pending", "g", member_id)}


def test_a_rebalance_completes_when_the_pending_member_it_waits_for_leaves():
    h = GroupHarness()
    leader, follower = h.stable()
    newcomer = h.join().reply.member_id
    request = h.join(member_id=leader)
    h.join(member_id=follower)
    assert request.is_parked
    h.leave("g", newcomer)
    assert request.ok


def test_parked_requests_of_a_leaving_member_return_unknown_member_id():
    h = GroupHarness()
    leader, follower = h.stable()
    joining = h.join(member_id=leader)
    h.leave("g", leader)
    assert (joining.error, joining.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    h.join(member_id=follower)
    newcomer = h.join_new_member()
    h.settle()
    h.join_new_member()
    for member_id in (follower, newcomer):
        h.join(member_id=member_id)
    syncing = h.sync("g", newcomer, h.group().generation)
    assert syncing.is_parked
    h.leave("g", newcomer)
    assert syncing.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_member_leads_after_the_leader_leaves():
    h = GroupHarness()
    leader, follower = h.stable()
    h.leave("g", leader)
    reply = h.join(member_id=follower).reply
    assert (reply.leader, len(reply.members)) == (follower, 1)


def test_a_static_member_can_be_removed_by_its_instance_id_alone():
    h = GroupHarness()
    h.stable(static=True)
    assert results(h.leave("g", ("", "i1"))) == ["NONE"]
    assert list(h.group().static_members) == ["i0"]


def test_the_leave_reason_is_emitted():
    h = GroupHarness()
    _, follower = h.stable()
    h.leave("g", follower, reason="bye")
    assert h.facts_named("members_left")[-1]["client_reason"] == "bye"
    started = h.facts_named("rebalance_started")[-1]
    assert (started["cause"], started["member_id"], started["reason"]) == ("a member left", follower, "bye")


def test_a_group_that_its_last_member_leaves_does_not_wait_for_a_pending_one():
    """The wait would be the longest rebalance timeout of the members, of whom there are none."""
    h = GroupHarness()
    (member_id,) = h.stable(members=1)
    h.join()
    h.leave("g", member_id)
    assert (h.group().state, h.group().members) == ("PreparingRebalance", {})
    h.advance(0)
    assert h.group().state == "Empty"


def test_a_rebalance_whose_members_all_leave_waits_on_for_a_pending_one():
    h = GroupHarness()
    (leader,) = h.stable(members=1, rebalance_ms=60_000)
    pending = h.join().reply.member_id
    h.join(instance="one", rebalance_ms=60_000)
    h.leave("g", leader, ("", "one"))
    h.advance(29_999)
    assert (h.group().state, h.group().members) == ("PreparingRebalance", {})
    assert h.join(member_id=pending).ok
