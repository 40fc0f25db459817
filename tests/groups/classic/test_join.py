"""JoinGroup: who becomes a member, and in which shape each version is told. Answers as recorded from Kafka 4.4.0."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import JoinGroupResponse
from tests.groups.harness import GroupHarness, subscription

UUID = "0" * 35


@pytest.mark.parametrize("version", range(4))
def test_before_v4_an_empty_id_joins_at_once(version):
    h = GroupHarness()
    asked = h.join(version=version)
    h.advance(0)
    reply = asked.reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, reply.member_id)
    assert reply.protocol_name == "range"
    assert [member.member_id for member in reply.members] == [reply.member_id]


@pytest.mark.parametrize("version", range(4, 10))
def test_since_v4_an_empty_id_is_given_one_to_come_back_with(version):
    h = GroupHarness()
    first = h.join(version=version).reply
    assert first == JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED,
        protocol_name=None if version >= 7 else "",
        member_id=first.member_id,
    )
    second = h.join(member_id=first.member_id, version=version)
    assert second.is_parked
    h.advance(0)
    assert second.ok
    assert second.reply.member_id == first.member_id


def test_an_id_is_the_client_id_and_a_uuid():
    h = GroupHarness()
    for client_id, prefix in (("a", "a"), ("long.client-id", "long.client-id"), ("", ""), (None, "")):
        member_id = h.join("ids", client_id=client_id).reply.member_id
        assert member_id[: len(prefix) + 1] == f"{prefix}-"
        assert len(member_id) == len(prefix) + 37


def test_a_static_member_joins_at_once_and_is_named_after_its_instance():
    h = GroupHarness()
    asked = h.join(instance="one")
    h.advance(0)
    assert asked.reply.member_id.startswith("one-")
    assert asked.reply.members[0].group_instance_id == "one"


def test_a_group_exists_once_an_id_was_given_out_in_it():
    h = GroupHarness()
    h.join()
    assert [(record.key.group, record.value.generation, record.value.members) for record in h.records] == [("g", 0, [])]
    h.restart()
    assert h.group().state == "Empty"


def test_a_group_exists_even_if_its_first_join_is_refused():
    h = GroupHarness()
    assert h.join(protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.group().state == "Empty"
    assert len(h.records) == 1


def test_a_made_up_id_is_unknown_whether_or_not_the_group_is():
    h = GroupHarness()
    assert h.join("nowhere", "made-up").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert "nowhere" not in h.groups.by_id
    h.stable()
    reply = h.join("g", "made-up").reply
    assert (reply.error_code, reply.member_id, reply.generation_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "made-up", -1)


def test_an_id_that_was_forgotten_in_a_crash_is_unknown():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    h.restart()
    assert h.join(member_id=member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_without_a_name_is_refused():
    assert GroupHarness().join("").error is ErrorCode.INVALID_GROUP_ID


def test_session_timeouts_outside_the_configured_range_are_refused():
    h = GroupHarness(group_min_session_timeout_ms=100, group_max_session_timeout_ms=1_800_000)
    for session_ms in (99, 1_800_001):
        assert h.join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT
    for session_ms in (100, 1_800_000):
        assert h.join(session_ms=session_ms).error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(
    "how",
    [
        {"protocol_type": ""},
        {"protocol_type": "connect"},
        {"protocols": {}},
        {"protocol_type": "", "protocols": {}},
        {"protocols": {"other": b"x"}},
    ],
)
def test_who_has_nothing_in_common_with_the_group_is_refused(how):
    h = GroupHarness()
    h.stable()
    assert h.join(**how).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.group().state == "Stable"


def test_a_protocol_listed_twice_is_refused():
    h = GroupHarness()
    assert h.join(protocols=[("range", b"1"), ("range", b"2")]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_last_member_of_a_stable_group_cannot_change_the_protocol_type():
    h = GroupHarness()
    (member_id,) = h.stable(members=1)
    assert h.join(member_id=member_id, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_metadata_that_is_no_subscription_is_nobodys_business():
    h = GroupHarness()
    assert h.stable(members=1, protocols={"range": b"\x01"})


@pytest.mark.parametrize("rebalance_ms", [-1, 0])
def test_a_rebalance_timeout_of_nothing_is_accepted(rebalance_ms):
    h = GroupHarness()
    asked = h.join(rebalance_ms=rebalance_ms, version=3)
    h.advance(0)
    assert asked.ok


def test_v0_uses_the_session_timeout_for_rebalances():
    h = GroupHarness()
    h.join(session_ms=12_345, version=0)
    h.advance(0)
    assert h.group().rebalance_timeout_ms() == 12_345


def test_an_id_given_to_a_dynamic_member_does_not_serve_a_static_one():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    assert h.join(member_id=member_id, instance="one").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.join(member_id=member_id).is_parked


def test_a_follower_that_repeats_its_join_in_stable_is_given_the_current_generation():
    h = GroupHarness()
    leader, follower = h.stable()
    reply = h.join(member_id=follower).reply
    assert (reply.error_code, reply.generation_id, reply.leader, reply.members) == (0, 1, leader, [])
    assert h.group().state == "Stable"
    assert h.join(member_id=follower, version=0).ok


def test_a_follower_with_other_metadata_starts_a_rebalance():
    h = GroupHarness()
    leader, follower = h.stable()
    asked = h.join(member_id=follower, protocols={"range": subscription(["other"])})
    assert asked.is_parked
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    back = h.join(member_id=leader)
    assert asked.reply.generation_id == back.reply.generation_id == 2
    assert asked.reply.members == []
    assert {member.member_id for member in back.reply.members} == {leader, follower}


def test_a_leader_that_joins_again_in_stable_starts_a_rebalance_whatever_it_says():
    h = GroupHarness()
    leader, follower = h.stable()
    assert h.join(member_id=leader).is_parked
    assert h.heartbeat("g", follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_in_completing_a_repeated_join_is_given_the_current_generation():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    assert h.group().state == "CompletingRebalance"
    assert len(h.join(member_id=leader).reply.members) == 2
    assert h.join(member_id=follower).reply.members == []
    assert h.group().state == "CompletingRebalance"


def test_in_completing_other_metadata_is_a_rebalance_and_parked_syncs_are_sent_back():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    waiting = h.sync("g", follower, 1)
    joining = h.join(member_id=leader, protocols={"range": subscription(["other"])})
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joining.is_parked
    assert h.join(member_id=follower).reply.generation_id == 2


def test_a_join_that_is_repeated_while_parked_takes_the_place_of_the_first():
    h = GroupHarness()
    leader, follower = h.stable()
    changed = {"range": subscription(["other"])}
    first = h.join(member_id=follower, protocols=changed)
    second = h.join(member_id=follower, protocols=changed)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    h.join(member_id=leader)
    assert second.ok


def test_a_reason_is_kept_and_told():
    h = GroupHarness()
    leader, _ = h.stable()
    h.join(member_id=leader, reason="because" * 100)
    told = h.facts_named("rebalance_started")[-1]
    assert (told["cause"], told["member_id"]) == ("the leader joins again", leader)
    assert told["client_reason"] == ("because" * 100)[:255]
    assert h.group().members[leader].client_reason == told["client_reason"]
    assert h.group().rebalances[-1].cause.client_reason == told["client_reason"]


def test_emptying_a_group_costs_one_generation():
    h = GroupHarness()
    leader, follower = h.stable()
    h.leave("g", leader, follower)
    assert (h.group().state, h.group().generation) == ("Empty", 2)
    asked = h.join(version=3)
    h.advance(0)
    assert asked.reply.generation_id == 3
