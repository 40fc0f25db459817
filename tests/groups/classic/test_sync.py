"""SyncGroup: each generation has exactly one assignment."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import GroupMetadataKey
from tests.groups.harness import GroupHarness


def completing(h):
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    return leader, follower


def test_a_followers_sync_is_parked_until_the_leader_syncs():
    h = GroupHarness()
    leader, follower = completing(h)
    waiting = h.sync("g", follower, 1)
    assert waiting.is_parked
    assert h.sync("g", leader, 1, {leader: b"L", follower: b"F"}).reply.assignment == b"L"
    assert waiting.reply.assignment == b"F"
    assert (waiting.reply.protocol_type, waiting.reply.protocol_name) == ("consumer", "range")


def test_a_sync_after_the_leaders_returns_the_assignment_at_once():
    h = GroupHarness()
    leader, follower = completing(h)
    h.sync("g", leader, 1, {leader: b"L", follower: b"F"})
    assert h.sync("g", follower, 1).reply.assignment == b"F"


def test_a_second_assignment_of_a_generation_is_ignored():
    h = GroupHarness()
    leader, follower = completing(h)
    h.sync("g", leader, 1, {leader: b"L", follower: b"F"})
    assert h.sync("g", leader, 1, {leader: b"X", follower: b"Y"}).reply.assignment == b"L"
    assert h.sync("g", follower, 1).reply.assignment == b"F"
    assert sum(isinstance(record.key, GroupMetadataKey) for record in h.records) == 2


def test_missing_assignments_are_empty_and_unknown_member_ids_are_ignored():
    h = GroupHarness()
    leader, follower = completing(h)
    assert h.sync("g", leader, 1, {leader: b"L", "unknown": b"G"}).reply.assignment == b"L"
    assert h.sync("g", follower, 1).reply.assignment == b""
    assert [member.member_id for member in h.group().stored.members] == [leader, follower]


def test_the_generation_is_written_with_its_assignments():
    h = GroupHarness()
    leader, follower = completing(h)
    h.sync("g", leader, 1, {leader: b"L", follower: b"F"})
    record = next(each for each in reversed(h.records) if isinstance(each.key, GroupMetadataKey))
    value = record.value
    assert (value.generation, value.leader, value.protocol, value.protocol_type) == (1, leader, "range", "consumer")
    assert [(member.member_id, member.assignment) for member in value.members] == [(leader, b"L"), (follower, b"F")]
    assert record.value_version == 3
    assert h.group().stored is value


@pytest.mark.parametrize("generation", [0, 2])
def test_sync_with_another_generation_returns_illegal_generation(generation):
    h = GroupHarness()
    _, follower = h.stable()
    reply = h.sync("g", follower, generation).reply
    assert (reply.error_code, reply.assignment, reply.protocol_name) == (ErrorCode.ILLEGAL_GENERATION, b"", None)


@pytest.mark.parametrize(("kind", "name"), [("connect", "range"), ("consumer", "sticky")])
def test_v5_sync_without_the_groups_protocol_returns_inconsistent_group_protocol(kind, name):
    h = GroupHarness()
    _, follower = h.stable()
    request = h.sync("g", follower, 1, protocol_type=kind, protocol_name=name)
    assert request.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_before_v5_a_sync_needs_no_protocol():
    h = GroupHarness()
    _, follower = h.stable()
    for version in range(5):
        assert h.sync("g", follower, 1, version=version).ok


def test_sync_of_an_unknown_member_returns_unknown_member_id():
    h = GroupHarness()
    h.stable()
    for member_id in ("unknown", ""):
        assert h.sync("g", member_id, 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.sync("unknown-group", "m", 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_of_a_pending_member_returns_unknown_member_id():
    h = GroupHarness()
    member_id = h.join().reply.member_id
    assert h.sync("g", member_id, 0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_in_preparing_rebalance_returns_rebalance_in_progress():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader)
    assert h.sync("g", follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.sync("g", follower, 0).error is ErrorCode.ILLEGAL_GENERATION


def test_a_repeated_sync_replaces_the_parked_one():
    h = GroupHarness()
    leader, follower = completing(h)
    first, second = h.sync("g", follower, 1), h.sync("g", follower, 1)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    h.sync("g", leader, 1, {follower: b"F"})
    assert second.reply.assignment == b"F"
