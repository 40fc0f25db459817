"""The state of classic groups after a restart, and the records that a load accepts."""

from itertools import permutations

import pytest

from coordinator.groups.classic.records import group_metadata_tombstone, new_group_metadata
from coordinator.groups.machine import RECORD_KEYS, GroupMachine
from coordinator.protocol.codec import Codec
from coordinator.protocol.messages import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde
from tests.groups.harness import GroupHarness, subscription

KEY = GroupMetadataKey("g")


def load(*records, **config):
    h = GroupHarness(**config)
    h.records.extend(records)
    h.restart()
    return h


def test_a_stable_group_is_the_same_after_a_restart():
    h = GroupHarness()
    members = h.stable(static=True, session_ms=12_000, rebalance_ms=34_000)
    before = h.group()
    h.restart()
    after = h.group()
    assert after is not before
    for name in (
        "state",
        "generation",
        "protocol_type",
        "protocol_name",
        "leader_id",
        "static_members",
        "state_timestamp_ms",
    ):
        assert getattr(after, name) == getattr(before, name), name
    for member_id in members:
        was, now = before.members[member_id], after.members[member_id]
        for name in ("group_instance_id", "client_id", "client_host", "protocols", "assignment", "session_timeout_ms"):
            assert getattr(now, name) == getattr(was, name), name
        assert now.rebalance_timeout_ms == 34_000
        assert h.heartbeat("g", member_id, 1).ok


def test_loading_a_shard_restarts_every_session():
    h = GroupHarness()
    member_id, _ = h.stable(session_ms=10_000)
    h.advance(9_999)
    h.restart()
    h.advance(9_999)
    assert member_id in h.group().members
    h.advance(1)
    assert h.group().state == "Empty"


def test_members_can_fetch_a_written_assignment_after_a_restart():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    h.sync("g", leader, 1, {leader: b"L", follower: b"F"})
    h.restart()
    assert h.sync("g", follower, 1).reply.assignment == b"F"
    assert h.sync("g", leader, 1).reply.assignment == b"L"


def test_a_restart_discards_a_rebalance_and_the_members_continue():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader)
    h.restart()
    assert h.group().state == "Stable"
    assert h.heartbeat("g", follower, 1).ok
    assert h.join(member_id=follower).reply.generation_id == 1


def test_live_replay_does_not_change_the_round():
    h = GroupHarness()
    _, follower = h.stable(protocols={"range": b"r", "sticky": b"s"})
    assert h.group().members[follower].protocols == (("range", b"r"), ("sticky", b"s"))
    assert h.join(member_id=follower, protocols={"range": b"r", "sticky": b"s"}).ok
    assert h.group().support == {"range": 2, "sticky": 2}


@pytest.mark.parametrize("version", range(5))
def test_group_records_of_every_version_are_loaded(version):
    member = GroupMetadataValue.MemberMetadata("m", None, "c", "/h", -1, 9_000, subscription(), b"A")
    value = GroupMetadataValue("consumer", 7, "range", "m", 55, [member])
    if version >= 1:
        member.rebalance_timeout = 70_000
    if version < 2:
        value.current_state_timestamp = -1
    if version >= 3:
        member.group_instance_id = "i"
    h = load(Record(KEY, value, version))
    group = h.group()
    assert (group.state, group.generation, group.leader_id) == ("Stable", 7, "m")
    assert group.members["m"].rebalance_timeout_ms == (70_000 if version >= 1 else 9_000)
    assert group.state_timestamp_ms == (55 if version >= 2 else None)
    assert group.static_members == ({"i": "m"} if version >= 3 else {})


def test_the_first_member_leads_if_the_record_has_no_valid_leader():
    member = GroupMetadataValue.MemberMetadata("m", None, "c", "/h", 1, 2, b"", b"")
    for leader in (None, "gone"):
        assert (
            load(Record(KEY, GroupMetadataValue("consumer", 1, "range", leader, -1, [member]), 3)).group().leader_id
            == "m"
        )


def test_an_empty_protocol_type_is_loaded_as_none():
    h = load(Record(KEY, GroupMetadataValue("", 0, None, None, 5, []), 3))
    assert h.group().protocol_type is None


def test_a_tombstone_of_an_unknown_group_does_nothing():
    assert load(group_metadata_tombstone("g")).groups.by_id == {}


def test_a_tombstone_removes_a_group_but_leaves_a_simple_group_if_it_has_offsets():
    created = new_group_metadata("g", 1)
    offset = Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=7, metadata="", commit_timestamp=1), 4)
    assert load(created, group_metadata_tombstone("g")).groups.by_id == {}
    h = load(created, offset, group_metadata_tombstone("g"))
    assert (h.group().state, h.group().protocol_type, h.group().stored) == ("Empty", None, None)


def test_the_records_of_a_group_may_be_replayed_in_any_order():
    records = [
        new_group_metadata("g", 1),
        Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=7, metadata="", commit_timestamp=1), 4),
        Record(OffsetCommitKey("g", "t", 1), None),
        group_metadata_tombstone("other"),
    ]
    states = [load(*order).durable() for order in permutations(records)]
    assert all(state == states[0] for state in states)


def test_replaying_a_record_twice_changes_nothing():
    h = GroupHarness()
    h.stable()
    twice = [record for record in h.records for _ in range(2)]
    assert h.durable(twice) == h.durable()


def test_unknown_and_legacy_record_types_are_skipped():
    serde = Serde(Codec.of(), RECORD_KEYS)
    assert serde.decode(b"\x00\x63", b"") is None
    groups = GroupMachine(GroupHarness().config, GroupHarness().catalog)
    groups.replay(Record(LegacyOffsetCommitKey("g", "t", 0), None))
    assert groups.by_id == {}
