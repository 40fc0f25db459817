"""The members of a group with epochs: finding the one that a request names, and admitting a new one.

Kafka: `ConsumerGroup.getOrMaybeCreateMember`, `GroupMetadataManager.throwIfInstanceIdIsFenced`, `throwIfConsumerGroupIsFull`.
"""

from base64 import urlsafe_b64encode
from typing import Protocol, TypeVar

from coordinator.protocol.errors import ErrorCode, KafkaError

_Member = TypeVar("_Member")


class Membership(Protocol[_Member]):
    """The part of a group that is looked at here."""

    group_id: str
    members: dict[str, _Member]
    static_members: dict[str, str]


_DASH = 62
"""The six bits that url-safe base64 writes as '-'."""


def member_of_request(group: Membership[_Member], member_id: str, instance_id: str | None) -> _Member:
    """The member that a request names. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    return member_of(group, member_id) if instance_id is None else holder_of(group, member_id, instance_id)


def member_of(group: Membership[_Member], member_id: str) -> _Member:
    """The member of this id. Raises UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def holder_of(group: Membership[_Member], member_id: str, instance_id: str) -> _Member:
    """The member, if it holds the instance id. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    holder = group.static_members.get(instance_id)
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}.",
        )
    return group.members[holder]


def fence_size(group: Membership[_Member], size_max: int, kind: str, member_id: str, instance_id: str | None) -> None:
    """Raises GROUP_MAX_SIZE_REACHED for a newcomer to a full group.

    A static member that replaces its predecessor does not count as a newcomer.
    """
    if len(group.members) < size_max or member_id in group.members:
        return
    if instance_id is not None and instance_id in group.static_members:
        return
    raise KafkaError(
        ErrorCode.GROUP_MAX_SIZE_REACHED, f"The {kind} group has reached its maximum capacity of {size_max} members."
    )


def short_id(fresh_id: str) -> str:
    """A UUID as Kafka writes its own ids: 22 letters of base64, never beginning with a dash."""
    data = bytes.fromhex(fresh_id.replace("-", ""))
    if data[0] >> 2 == _DASH:
        data = bytes((data[0] & 0x7F,)) + data[1:]
    return urlsafe_b64encode(data).decode().rstrip("=")
