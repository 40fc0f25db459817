"""ListGroups and DescribeGroups for classic groups."""

import pytest

from coordinator.groups.classic.describe import describe_group
from coordinator.groups.list_groups import list_groups
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroupsResponse
from tests.groups.harness import GroupHarness

Member = DescribeGroupsResponse.DescribedGroupMember
METADATA = {"range": b"member metadata"}


def test_a_stable_group_is_described_with_metadata_and_assignments():
    h = GroupHarness()
    leader, follower = h.stable(protocols=METADATA)
    group = describe_group(h.groups, "g", 6)
    assert (group.error_code, group.error_message, group.group_state) == (0, None, "Stable")
    assert (group.protocol_type, group.protocol_data, group.authorized_operations) == ("consumer", "range", -(2**31))
    assert group.members == [
        Member(leader, None, "client", "/127.0.0.1", b"member metadata", b"A0"),
        Member(follower, None, "client", "/127.0.0.1", b"member metadata", b"A1"),
    ]


def test_a_rebalancing_group_is_described_with_the_last_assignments_only():
    h = GroupHarness()
    leader, follower = h.stable(protocols=METADATA)
    for state, joiner in (("PreparingRebalance", leader), ("CompletingRebalance", follower)):
        h.join(member_id=joiner, protocols=METADATA)
        group = describe_group(h.groups, "g", 6)
        assert (group.group_state, group.protocol_type, group.protocol_data) == (state, "consumer", "")
        assert [(each.member_metadata, each.member_assignment) for each in group.members] == [
            (b"", b"A0"),
            (b"", b"A1"),
        ]


def test_a_generation_aborted_before_its_sync_leaves_empty_assignments():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader)
    h.join(member_id=follower)
    h.join_new_member()
    group = describe_group(h.groups, "g", 6)
    assert group.group_state == "PreparingRebalance"
    assert [each.member_assignment for each in group.members] == [b"", b"", b""]


def test_an_empty_group_keeps_its_protocol_type():
    h = GroupHarness()
    h.leave("g", *h.stable())
    group = describe_group(h.groups, "g", 6)
    assert (group.group_state, group.protocol_type, group.protocol_data, group.members) == ("Empty", "consumer", "", [])


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_described_as_dead_with_an_error_since_v6(version):
    group = describe_group(GroupHarness().groups, "unknown", version)
    assert (group.group_state, group.members) == ("Dead", [])
    expected = (ErrorCode.GROUP_ID_NOT_FOUND, "Group unknown not found.") if version >= 6 else (0, None)
    assert (group.error_code, group.error_message) == expected


def listed(h, states=(), types=()):
    return sorted(group.group_id for group in list_groups(h.groups, states, types))


def test_groups_are_listed_with_their_protocol_type_and_state():
    h = GroupHarness()
    h.stable("stable")
    h.join("empty")
    groups = {group.group_id: group for group in list_groups(h.groups, [], [])}
    assert set(groups) == {"stable", "empty"}
    assert (groups["stable"].protocol_type, groups["stable"].group_state) == ("consumer", "Stable")
    assert (groups["empty"].protocol_type, groups["empty"].group_state) == ("", "Empty")
    assert {group.group_type for group in groups.values()} == {"classic"}


def test_list_filters_ignore_case_and_unknown_values_match_nothing():
    h = GroupHarness()
    h.stable("stable")
    h.join("empty")
    assert listed(h, ["stable", "EMPTY"]) == ["empty", "stable"]
    assert listed(h, [" Stable "]) == ["stable"]
    assert listed(h, ["nonsense"]) == []
    assert listed(h, [], ["CLASSIC"]) == ["empty", "stable"]
    assert listed(h, [], ["consumer"]) == []
    assert listed(h, [], ["nonsense"]) == []
    assert listed(h, ["Dead", "Stable"], ["classic", "nonsense"]) == ["stable"]
