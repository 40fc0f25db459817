"""Who is a member of a group with epochs, and who may still become one."""

from base64 import urlsafe_b64decode
from types import SimpleNamespace
from uuid import UUID

import pytest

from coordinator.groups.epochs.membership import fence_size, member_of_request, short_id
from coordinator.protocol.errors import ErrorCode, KafkaError

GROUP = SimpleNamespace(group_id="g", members={"one": "member one", "two": "member two"}, static_members={"i": "one"})
"""Members one, with instance id i, and two."""


@pytest.mark.parametrize(
    ("member_id", "instance_id", "member"),
    [("one", None, "member one"), ("one", "i", "member one"), ("two", None, "member two")],
)
def test_a_request_names_a_member_by_its_id_and_the_instance_id_that_it_holds(member_id, instance_id, member):
    assert member_of_request(GROUP, member_id.encode().decode(), instance_id) == member, (
        "ids are equal, not the same object"
    )


@pytest.mark.parametrize(
    ("member_id", "instance_id", "error", "message"),
    [
        ("c", None, "UNKNOWN_MEMBER_ID", "Member c is not a member of group g."),
        ("one", "other", "UNKNOWN_MEMBER_ID", "Instance id other is unknown."),
        ("two", "i", "FENCED_INSTANCE_ID", "Static member two with instance id i was fenced by member one."),
        ("One", "i", "FENCED_INSTANCE_ID", "Static member One with instance id i was fenced by member one."),
    ],
)
def test_a_request_that_names_no_member_is_answered_with_what_is_wrong(member_id, instance_id, error, message):
    with pytest.raises(KafkaError) as refused:
        member_of_request(GROUP, member_id, instance_id)
    assert (refused.value.code.name, refused.value.message) == (error, message)


@pytest.mark.parametrize(
    ("size_max", "member_id", "instance_id"),
    [(3, "c", None), (4, "c", "new"), (2, "one", None), (1, "two", "new"), (2, "c", "i"), (1, "c", "i")],
    ids=["room for one", "room for two", "a member", "a member, too large", "a successor", "a successor, too large"],
)
def test_a_group_admits_as_many_members_as_it_may_have(size_max, member_id, instance_id):
    fence_size(GROUP, size_max, "consumer", member_id, instance_id)


@pytest.mark.parametrize("size_max", [2, 1])
@pytest.mark.parametrize("instance_id", [None, "new"])
def test_a_full_group_refuses_a_newcomer(size_max, instance_id):
    with pytest.raises(KafkaError) as refused:
        fence_size(GROUP, size_max, "streams", "c", instance_id)
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.value.message == f"The streams group has reached its maximum capacity of {size_max} members."


def test_a_member_id_that_is_made_here_is_the_uuid_in_22_letters_and_never_begins_with_a_dash():
    for first in range(256):
        uuid = UUID(bytes=bytes((first, *range(0xF1, 0x100))))
        member_id = short_id(str(uuid))
        assert (len(member_id), member_id[0] != "-") == (22, True)
        begins_with_a_dash = 0xF8 <= first <= 0xFB
        kept = bytes((first - 0x80 if begins_with_a_dash else first, *uuid.bytes[1:]))
        assert urlsafe_b64decode(member_id + "==") == kept
