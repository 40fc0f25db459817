"""The subscriptions and assignments of consumers, in their four versions and beyond."""

import pytest

from coordinator.protocol.codec import DecodeError
from coordinator.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
    parse_assignment,
    parse_subscription,
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
