"""JoinGroup: which members are accepted, and the response in each version, as recorded from Kafka 4.4.0."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import JoinGroupResponse
from tests.groups.harness import GroupHarness, subscription

UUID = "0" * 35


@pytest.mark.parametrize("version", range(4))
def test_before_v4_a_join_without_a_member_id_is_accepted_at_once(version):
    h = GroupHarness()
    request = h.join(version=version)
    h.advance(0)
    reply = request.reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, reply.member_id)
    assert reply.protocol_name == "range"
    assert [member.member_id for member in reply.members] == [reply.member_id]


@pytest.mark.parametrize("version", range(4, 10))
def test_since_v4_a_join_without_a_member_id_returns_member_id_required(version):
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


def test_a_dynamic_member_id_is_the_client_id_and_a_uuid():
    h = GroupHarness()
    for client_id, prefix in (("a", "a"), ("long.client-id", "long.client-id"), ("", ""), (None, "")):
        member_id = h.join("ids", client_id=client_id).reply.member_id
        assert member_id[: len(prefix) + 1] == f"{prefix}-"
        assert len(member_id) == len(prefix) + 37


def test_a_static_member_joins_at_once_and_its_id_starts_with_its_instance_id():
    h = GroupHarness()
    request = h.join(instance="one")
    h.advance(0)
    assert request.reply.member_id.startswith("one-")
    assert request.reply.members[0].group_instance_id == "one"


def test_handing_out_a_member_id_creates_the_group():
    h = GroupHarness()
    h.join()
    assert [(record.key.group, record.value.generation, record.value.members) for record in h.records] == [("g", 0, [])]
    h.restart()
    assert h.group().state == "Empty"


def test_a_rejected_first_join_creates_the_group():
    h = GroupHarness()
    assert h.join(protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.group().state == "Empty"
    assert len(h.records) == 1


def test_join_of_an_unknown_member_returns_unknown_member_id_and_creates_no_group():
    h = GroupHarness()
    assert h.join("unknown-group", "made-up").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert "unknown-group" not in h.groups.by_id
    h.stable()
    reply = h.join("g", "made-up").reply
    assert (reply.error_code, reply.member_id, reply.generation_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "made-up", -1)


def test_a_pending_member_id_is_unknown_after_a_crash():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    h.restart()
    assert h.join(member_id=member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_join_with_a_session_timeout_outside_the_configured_range_is_rejected():
    h = GroupHarness(group_min_session_timeout_ms=100, group_max_session_timeout_ms=1_800_000)
    for session_ms in (99, 1_800_001):
        assert h.join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT
    for session_ms in (100, 1_800_000):
        assert h.join(session_ms=session_ms).error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(
    "options",
    [
        {"protocol_type": ""},
        {"protocol_type": "connect"},
        {"protocols": {}},
        {"protocol_type": "", "protocols": {}},
        {"protocols": {"other": b"x"}},
    ],
)
def test_join_without_a_common_protocol_returns_inconsistent_group_protocol(options):
    h = GroupHarness()
    h.stable()
    assert h.join(**options).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.group().state == "Stable"


def test_join_with_a_duplicate_protocol_returns_inconsistent_group_protocol():
    h = GroupHarness()
    assert h.join(protocols=[("range", b"1"), ("range", b"2")]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_only_member_of_a_stable_group_cannot_change_the_protocol_type():
    h = GroupHarness()
    (member_id,) = h.stable(members=1)
    assert h.join(member_id=member_id, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_metadata_that_is_not_a_valid_subscription_is_accepted():
    h = GroupHarness()
    assert h.stable(members=1, protocols={"range": b"\x01"})


@pytest.mark.parametrize("rebalance_ms", [-1, 0])
def test_a_rebalance_timeout_of_zero_or_less_is_accepted(rebalance_ms):
    h = GroupHarness()
    request = h.join(rebalance_ms=rebalance_ms, version=3)
    h.advance(0)
    assert request.ok


def test_v0_uses_the_session_timeout_as_the_rebalance_timeout():
    h = GroupHarness()
    h.join(session_ms=12_345, version=0)
    h.advance(0)
    assert h.group().rebalance_timeout_ms() == 12_345


def test_a_static_member_cannot_join_with_a_pending_dynamic_member_id():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    assert h.join(member_id=member_id, instance="one").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.join(member_id=member_id).is_parked


def test_a_stable_follower_that_rejoins_receives_the_current_generation():
    h = GroupHarness()
    leader, follower = h.stable()
    reply = h.join(member_id=follower).reply
    assert (reply.error_code, reply.generation_id, reply.leader, reply.members) == (0, 1, leader, [])
    assert h.group().state == "Stable"
    assert h.join(member_id=follower, version=0).ok


def test_a_follower_that_rejoins_with_changed_metadata_starts_a_rebalance():
    h = GroupHarness()
    leader, follower = h.stable()
    request = h.join(member_id=follower, protocols={"range": subscription(["other"])})
    assert request.is_parked
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = h.join(member_id=leader)
    assert request.reply.generation_id == rejoined.reply.generation_id == 2
    assert request.reply.members == []
    assert {member.member_id for member in rejoined.reply.members} == {leader, follower}


def test_a_stable_leader_that_rejoins_starts_a_rebalance():
    h = GroupHarness()
    leader, follower = h.stable()
    assert h.join(member_id=leader).is_parked
    assert h.heartbeat("g", follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_repeated_join_in_completing_rebalance_receives_the_current_generation():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    assert h.group().state == "CompletingRebalance"
    assert len(h.join(member_id=leader).reply.members) == 2
    assert h.join(member_id=follower).reply.members == []
    assert h.group().state == "CompletingRebalance"


def test_changed_metadata_in_completing_rebalance_fails_parked_syncs_and_rebalances():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    waiting = h.sync("g", follower, 1)
    joining = h.join(member_id=leader, protocols={"range": subscription(["other"])})
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joining.is_parked
    assert h.join(member_id=follower).reply.generation_id == 2


def test_a_repeated_join_replaces_the_parked_one():
    h = GroupHarness()
    leader, follower = h.stable()
    changed = {"range": subscription(["other"])}
    first = h.join(member_id=follower, protocols=changed)
    second = h.join(member_id=follower, protocols=changed)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    h.join(member_id=leader)
    assert second.ok


def test_the_join_reason_is_truncated_stored_and_emitted():
    h = GroupHarness()
    leader, _ = h.stable()
    h.join(member_id=leader, reason="because" * 100)
    started = h.facts_named("rebalance_started")[-1]
    assert (started["cause"], started["member_id"]) == ("the leader joins again", leader)
    assert started["reason"] == ("because" * 100)[:255]
    assert h.group().members[leader].client_reason == started["reason"]
    assert h.group().rebalances[-1].cause.reason == started["reason"]


def test_emptying_a_group_increments_the_generation():
    h = GroupHarness()
    leader, follower = h.stable()
    h.leave("g", leader, follower)
    assert (h.group().state, h.group().generation) == ("Empty", 2)
    request = h.join(version=3)
    h.advance(0)
    assert request.reply.generation_id == 3
