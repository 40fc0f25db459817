"""The steps and checks that the heartbeats of consumer and streams groups share.

A heartbeat is the one request of a member. It joins, learns, confirms and leaves by it:

    epoch 0      I join, or I was fenced and join again; this request says everything about me
    epoch > 0    I am in this epoch; this request says what has changed about me, the rest is null
    epoch -1     I leave
    epoch -2     I leave, but the process with my instance id will be back

An answer may get lost. The member then repeats the epoch it had, and owns no more than what it is assigned now; that is
accepted. Any other wrong epoch means that the member and the group have lost each other: the member is fenced, gives up
everything and joins again.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from coordinator.groups.epochs.member import JOINING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH, ModernMember
from coordinator.groups.epochs.membership import member_of_request
from coordinator.groups.epochs.update import ModernUpdate
from coordinator.groups.events import refused
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.runtime.result import Fact

UNCHANGED = -1
"""As rebalance timeout: the member does not say it in this heartbeat."""

Member = TypeVar("Member", bound=ModernMember)
Update = TypeVar("Update", bound=ModernUpdate[Any, Any, Any])
Place = TypeVar("Place", bytes, str)


class HeartbeatRequest(Protocol):
    """The fields that the heartbeats of both kinds have."""

    NAME: ClassVar[str]
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rebalance_timeout_ms: int


def refused_facts(groups: Groups, request: HeartbeatRequest, error: KafkaError) -> tuple[Fact, ...]:
    """The facts of a refused heartbeat."""
    api = request.NAME.removesuffix("Request")
    return refused(groups, request.group_id, request.member_id, request.instance_id, request.member_epoch, error, api)


def invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


def check_epoch(request: HeartbeatRequest, invalid_epoch: str) -> None:
    """Raises INVALID_REQUEST for an epoch that no member has, or that does not go with the rest of the request."""
    epoch = request.member_epoch
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == UNCHANGED:
            raise invalid("RebalanceTimeoutMs must be provided in first request.")
    elif epoch == LEAVING_FOR_A_WHILE_EPOCH:
        if request.instance_id is None:
            raise invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE_EPOCH:
        raise invalid(invalid_epoch)


def existing(kind: type[Update], groups: Groups, group_id: str, now_ms: int) -> Update:
    """An update of the group that a heartbeat with an epoch above 0 names. Raises GROUP_ID_NOT_FOUND."""
    update = kind.find(groups, group_id, now_ms)
    if update is None:
        raise groups.not_found(group_id, kind.KIND)
    return update


def existing_to_leave(kind: type[Update], groups: Groups, group_id: str, now_ms: int) -> Update:
    """The same for a heartbeat that leaves; Kafka words the refusal differently. Raises GROUP_ID_NOT_FOUND."""
    update = kind.find(groups, group_id, now_ms)
    if update is None and group_id not in groups.by_id:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return existing(kind, groups, group_id, now_ms) if update is None else update


def fence_epoch(
    update: ModernUpdate[Any, Member, Any], request: HeartbeatRequest, owns_no_more: Callable[[Member], bool]
) -> Member:
    """The member that sends this heartbeat, with an epoch above 0.

    `owns_no_more`: whether the request says that the member owns nothing that it is not assigned. Raises UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
    """
    epoch = request.member_epoch
    member: Member = member_of_request(update.group, request.member_id, request.instance_id)
    known = member.member_epoch
    if epoch == known or (epoch < known and epoch == member.previous_member_epoch and owns_no_more(member)):
        return member
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {update.KIND.label} group member has a {'greater' if epoch > known else 'smaller'} member epoch ({epoch}) "
        f"than the one known by the group coordinator ({known}). "
        "The member must abandon all its partitions and rejoin.",
    )


def contains_all(held: Mapping[Place, Container[int]], owned: Iterable[tuple[Place, Iterable[int]]]) -> bool:
    """Whether everything that is owned is also held: by topic id and partition, or by subtopology id and task."""
    for place, numbers in owned:
        known = held.get(place)
        if known is None or not all(number in known for number in numbers):
            return False
    return True
