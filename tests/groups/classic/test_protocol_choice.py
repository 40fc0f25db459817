"""How a group chooses its protocol."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.java import hash_map_order
from tests.groups.harness import GroupHarness


def chosen_protocol(*preferences):
    h = GroupHarness()
    for names in preferences:
        h.join_new_member(protocols={name: name.encode() for name in names})
    h.advance(0)
    return h.group().protocol_name


def test_only_a_protocol_that_every_member_supports_can_be_chosen_protocol():
    assert chosen_protocol(["a", "b"], ["a", "b"], ["b"]) == "b"


def test_each_member_votes_for_its_first_common_protocol():
    assert chosen_protocol(["x", "b", "a"], ["a", "b"], ["b", "a"]) == "b"


def test_a_tie_is_broken_by_the_order_of_a_java_hash_map():
    assert chosen_protocol(["range", "roundrobin"], ["roundrobin", "range"]) == "range"
    assert chosen_protocol(["roundrobin", "range"], ["range", "roundrobin"]) == "range"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["roundrobin", "range"], ["range", "roundrobin"]),
        (["b", "a", "c"], ["a", "b", "c"]),
        (["Aa", "BB"], ["Aa", "BB"]),
        (["BB", "Aa"], ["BB", "Aa"]),
        (
            ["cooperative-sticky", "sticky", "range", "roundrobin"],
            ["sticky", "range", "roundrobin", "cooperative-sticky"],
        ),
    ],
)
def test_names_are_ordered_as_in_a_java_hash_map(names, expected):
    assert hash_map_order(names) == expected


def test_many_names_are_ordered_as_in_a_larger_hash_table():
    numbers = [7, 70, 14, 49, 28, 84, 0, 63, 42, 21, 77, 56, 35]  # as Java prints them
    assert hash_map_order(f"protocol-{7 * i}" for i in range(13)) == [f"protocol-{n}" for n in numbers]


def test_a_member_cannot_drop_the_last_common_protocol():
    h = GroupHarness()
    _, follower = h.stable(protocols={"range": b"r", "sticky": b"s"})
    assert h.join(member_id=follower, protocols={"other": b"o"}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.join(member_id=follower, protocols={"sticky": b"s"}).is_parked


def test_the_leader_receives_the_metadata_of_the_chosen_protocol():
    h = GroupHarness()
    request = h.join(protocols={"a": b"of a", "b": b"of b"}, version=3)
    h.join_new_member(protocols={"b": b"of the other"})
    h.advance(0)
    assert sorted(member.metadata for member in request.reply.members) == [b"of b", b"of the other"]


def test_a_loaded_group_knows_only_the_chosen_protocol():
    h = GroupHarness()
    h.stable(protocols={"range": b"r", "sticky": b"s"})
    h.restart()
    assert h.join(protocols={"sticky": b"s"}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.join(protocols={"range": b"r"}).error is ErrorCode.MEMBER_ID_REQUIRED
