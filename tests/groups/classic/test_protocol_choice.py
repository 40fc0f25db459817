"""Which protocol wins the vote."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.java import hash_map_order
from tests.groups.harness import GroupHarness


def chosen(*preferences):
    h = GroupHarness()
    for names in preferences:
        h.join_new_member(protocols={name: name.encode() for name in names})
    h.advance(0)
    return h.group().protocol_name


def test_only_what_everybody_offers_can_be_chosen():
    assert chosen(["a", "b"], ["a", "b"], ["b"]) == "b"


def test_every_member_votes_for_its_first_candidate():
    assert chosen(["x", "b", "a"], ["a", "b"], ["b", "a"]) == "b"


def test_a_tie_goes_to_javas_order_and_not_to_a_member():
    assert chosen(["range", "roundrobin"], ["roundrobin", "range"]) == "range"
    assert chosen(["roundrobin", "range"], ["range", "roundrobin"]) == "range"


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
def test_names_come_in_the_order_of_a_java_hash_map(names, expected):
    assert hash_map_order(names) == expected


def test_more_names_make_a_larger_hash_table():
    numbers = [7, 70, 14, 49, 28, 84, 0, 63, 42, 21, 77, 56, 35]  # as Java prints them
    assert hash_map_order(f"protocol-{7 * i}" for i in range(13)) == [f"protocol-{n}" for n in numbers]


def test_a_member_cannot_take_away_the_last_protocol_in_common():
    h = GroupHarness()
    _, follower = h.stable(protocols={"range": b"r", "sticky": b"s"})
    assert h.join(member_id=follower, protocols={"other": b"o"}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.join(member_id=follower, protocols={"sticky": b"s"}).is_parked


def test_the_chosen_protocols_metadata_is_what_the_leader_gets():
    h = GroupHarness()
    asked = h.join(protocols={"a": b"of a", "b": b"of b"}, version=3)
    h.join_new_member(protocols={"b": b"of the other"})
    h.advance(0)
    assert sorted(member.metadata for member in asked.reply.members) == [b"of b", b"of the other"]


def test_after_a_restart_a_group_knows_the_chosen_protocol_only():
    h = GroupHarness()
    h.stable(protocols={"range": b"r", "sticky": b"s"})
    h.restart()
    assert h.join(protocols={"sticky": b"s"}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.join(protocols={"range": b"r"}).error is ErrorCode.MEMBER_ID_REQUIRED
