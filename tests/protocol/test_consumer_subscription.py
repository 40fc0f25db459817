"""The subscriptions and assignments of consumers, in their four versions and beyond."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.codec import DecodeError
from coordinator.protocol.subscription import (
    KIP_792,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
    is_in_kip_order,
    parse_assignment,
    parse_subscription,
    sticky_generation,
)

V3 = bytes.fromhex(
    "0003"  # version
    "00000002 000161 000162"  # topics a, b
    "00000001 ff"  # user data
    "00000001 000161 00000002 00000000 00000001"  # owned: a-0, a-1
    "00000007"  # generation
    "00017a"  # rack z
)


def test_version_3_is_read():
    """Topics, owned partitions, the generation in which they were owned, the rack."""
    expected = Subscription(("a", "b"), b"\xff", {"a": (0, 1)}, 7, "z", 3)
    assert parse_subscription(V3) == expected
    assert encode_subscription(expected) == V3


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_versions_lack_the_later_fields(version: int):
    """Owned since v1, generation since v2, rack since v3."""
    full = Subscription(("a",), None, {"b": (1,)}, 4, "r", version)
    parsed = parse_subscription(encode_subscription(full))
    assert parsed.owned == ({"b": (1,)} if version >= 1 else {})
    assert parsed.generation_id == (4 if version >= 2 else -1)
    assert parsed.rack_id == ("r" if version >= 3 else None)


def test_a_newer_version_is_read_as_the_newest_known():
    """The format only grows at its end."""
    parsed = parse_subscription(b"\x00\x09" + V3[2:] + b"something new")
    assert (parsed.topics, parsed.version) == (("a", "b"), 3)


def test_a_topic_owned_twice_has_the_partitions_of_both():
    """No claim is lost if the topic occurs twice."""
    data = bytes.fromhex("0001 00000000 ffffffff 00000002 000161 00000001 00000000 000161 00000001 00000001")
    assert parse_subscription(data).owned == {"a": (0, 1)}


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\xff\xff", b"\x00\x00", b"range", b"\x00\x01\x7f\xff\xff\xff", V3[:-1]]
)
def test_metadata_that_is_not_a_subscription_is_refused(data: bytes):
    """Kafka lets such members join; code that needs their topics gets an error."""
    with pytest.raises(DecodeError):
        parse_subscription(data)


def test_assignments():
    """The leader's answer for one member; no bytes at all are an empty assignment."""
    assignment = Assignment({"a": (0, 2), "b": ()}, None, 1)
    data = bytes.fromhex("0001 00000002 000161 00000002 00000000 00000002 000162 00000000 ffffffff")
    assert encode_assignment(assignment) == data
    assert parse_assignment(data) == assignment
    assert parse_assignment(b"") == Assignment({}, None, 0)
    with pytest.raises(DecodeError):
        parse_assignment(data[:-1])


STICKY = bytes.fromhex("00000002 000161 00000002 00000000 00000001 00026262 00000000 00000007")
"""The user data of `sticky`, version 1: a-0, a-1, nothing of bb; generation 7."""


@pytest.mark.parametrize(
    ("user_data", "generation"),
    [
        (bytes.fromhex("00000007"), 7),
        (STICKY, 7),
        (bytes.fromhex("00000000 00000005"), 5),
        (None, None),
        (b"", None),
        (bytes.fromhex("ffffffff"), None),
        (STICKY[:-4], None),
        (STICKY + b"\0", None),
        (bytes.fromhex("00000001 ffff 00000001"), None),
        (bytes.fromhex("7fffffff 0001"), None),
    ],
)
def test_the_generation_is_read_from_user_data_that_have_one(user_data: bytes | None, generation: int | None):
    """In both forms that clients write, and in no other."""
    assert sticky_generation(user_data) == generation


@given(st.binary(max_size=40))
def test_no_user_data_are_too_odd_to_be_looked_at(user_data: bytes):
    """The user's own assignor may be called cooperative-sticky."""
    assert (sticky_generation(user_data) or 0) >= 0


V2_IN_KIP_ORDER = bytes.fromhex(
    "0002"  # version
    "00000001 000161"  # topic a
    "00000007"  # generation
    "00000001 ff"  # user data
    "00000001 000161 00000002 00000000 00000001"  # owned: a-0, a-1
)


def test_the_dialect_reads_the_order_of_the_proposal():
    """GenerationId comes before UserData; it is written back as it came."""
    subscription = parse_subscription(V2_IN_KIP_ORDER, KIP_792)
    assert subscription == Subscription(("a",), b"\xff", {"a": (0, 1)}, 7, None, 2, KIP_792)
    assert encode_subscription(subscription) == V2_IN_KIP_ORDER


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_dialect_also_reads_kafkas_order(version: int):
    """A client may take the listener for its JoinGroup only."""
    data = encode_subscription(Subscription(("a",), b"\0\1", {"a": (3,)}, 4, None, version))
    kafkas = parse_subscription(data)
    assert replace(parse_subscription(data, KIP_792), dialect=None) == kafkas
    assert not is_in_kip_order(data)


def test_the_order_of_the_proposal_is_recognized_where_it_is_not_read():
    """By the version and the complete form."""
    assert is_in_kip_order(V2_IN_KIP_ORDER)
    for data in (V2_IN_KIP_ORDER[:-1], V2_IN_KIP_ORDER + b"\0", b"\0\3" + V2_IN_KIP_ORDER[2:], b"", V3):
        assert not is_in_kip_order(data)
