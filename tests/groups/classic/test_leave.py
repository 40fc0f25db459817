"""LeaveGroup: who may be taken out of a group, and what the others notice."""

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness


def results(asked):
    assert asked.ok
    return [ErrorCode(member.error_code).name for member in asked.reply.members]


def test_before_v3_the_only_result_is_the_answer():
    h = GroupHarness()
    leader, follower = h.stable()
    for version in range(3):
        assert h.leave("nowhere", "m", version=version).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert h.leave("g", "m", version=version).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.leave("g", follower, version=0).ok
    assert h.leave("g", leader, version=2).ok


def test_a_batch_is_answered_in_the_order_of_the_request():
    h = GroupHarness()
    leader, follower = h.stable()
    asked = h.leave("g", "m", ("", "i"), follower, follower)
    assert [(member.member_id, member.group_instance_id) for member in asked.reply.members] == [
        ("m", None), ("", "i"), (follower, None), (follower, None),
    ]  # fmt: skip
    assert results(asked) == ["UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID", "NONE", "UNKNOWN_MEMBER_ID"]
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unknown_group_knows_no_members_and_a_nameless_one_is_refused():
    h = GroupHarness()
    assert results(h.leave("nowhere", "m")) == ["UNKNOWN_MEMBER_ID"]
    assert h.leave("", "m").error is ErrorCode.INVALID_GROUP_ID


def test_a_batch_of_nobody_is_fine():
    h = GroupHarness()
    h.stable()
    assert results(h.leave("g")) == []
    assert h.group().state == "Stable"


def test_a_batch_causes_one_rebalance():
    h = GroupHarness()
    leader, second, third, fourth = h.stable(members=4)
    h.leave("g", second, third)
    assert h.join(member_id=leader).is_parked
    assert h.join(member_id=fourth).reply.generation_id == 2
    assert len(h.facts_named("rebalance_started")) == 2


def test_when_the_last_member_goes_the_group_is_empty_and_that_is_written():
    h = GroupHarness()
    leader, follower = h.stable()
    assert results(h.leave("g", leader, follower)) == ["NONE", "NONE"]
    value = h.records[-1].value
    assert (value.generation, value.members, value.protocol, value.leader) == (2, [], None, None)
    assert value.protocol_type == "consumer"
    assert h.group().state == "Empty"


def test_a_member_that_only_has_its_id_can_leave():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    assert results(h.leave("g", member_id)) == ["NONE"]
    assert h.join(member_id=member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not h.timers.keys() & {("classic-pending", "g", member_id)}


def test_when_the_one_who_was_waited_for_leaves_the_others_go_on():
    h = GroupHarness()
    leader, follower = h.stable()
    newcomer = h.join().reply.member_id
    asked = h.join(member_id=leader)
    h.join(member_id=follower)
    assert asked.is_parked
    h.leave("g", newcomer)
    assert asked.ok


def test_parked_calls_of_a_member_that_leaves_are_told_that_it_is_unknown():
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


def test_if_the_leader_leaves_another_member_leads():
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


def test_the_reason_is_told():
    h = GroupHarness()
    _, follower = h.stable()
    h.leave("g", follower, reason="bye")
    assert h.facts_named("members_left")[-1]["client_reason"] == "bye"
    started = h.facts_named("rebalance_started")[-1]
    assert (started["cause"], started["member_id"], started["client_reason"]) == ("a member left", follower, "bye")
