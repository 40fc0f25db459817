"""Who may act for a group: is the caller still the one it says it is?

A fence changes nothing and answers nothing: it returns, or raises the error that tells the client what it has become.
The order of the checks is Kafka's, for a client reacts differently to each: a member id taken over by its successor
(FENCED_INSTANCE_ID) ends the client for good, an unknown member starts anew, a wrong generation joins again and keeps
its id.

For commits the rule depends on the kind of group, so the kind is looked up here, once. A group nobody knows takes
commits from anyone who does not claim to be a member: that is how simple consumers and admin tools store offsets.

In a consumer group a member commits with its epoch, and the epoch moves under its feet: a commit that left the client
before the heartbeat's answer came carries the one before. Which earlier epochs are good enough is a policy
(`group.consumer.fencing.policy`), and since the log keeps all there is to know of epochs it may change at any time:

    strict              none (Kafka up to 4.2). Every rebalance may fail commits of members that nothing was taken from
    revocation-epoch    those after the last one in which the member lost a partition (KAFKA-19779), for partitions it has
                        had since. A member whose record does not say, because a Kafka wrote it, is held to `strict`
    assignment-epoch    those since the member has had the partition (KIP-1251, Kafka 4.4)

A member of a streams group is judged by the partitions that its active tasks read, and the epochs of its tasks (KIP-1071);
`group.streams.fencing.policy` is `strict` or `assignment-epoch`, since its records do not say when it last lost a task.

No policy lets a commit through that was made before the partition went to somebody else. One partition that fails fails the
request. The policies are about earlier epochs: at its epoch a member may commit anything, as in Kafka, also what it has
lost since or never had. `fencing.require.ownership` ends that.

Offsets that a producer commits in a transaction are its consumer's, who is named in the request (KIP-447), so the same rules
hold, with two exceptions of Kafka's. The state of a classic group does not matter. And who names nobody is let through, also
in a group that has members: clients before Kafka 2.5 cannot (TxnOffsetCommit v0-2), and later ones need not. Nothing fences
such a producer's consumer; `CommitCounters.txn_requests` counts them, and `fencing.require.member` refuses them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from coordinator.groups.classic.group import ClassicGroup, find_classic_group
from coordinator.groups.classic.states import State
from coordinator.groups.consumer.group import ConsumerGroup, find_consumer_group
from coordinator.groups.consumer.member import ConsumerMember
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.settings import (
    ASSIGNMENT_EPOCH,
    FENCING_POLICIES,
    REVOCATION_EPOCH,
    ConsumerSettings,
    StreamsSettings,
)
from coordinator.groups.streams.group import StreamsGroup, find_streams_group
from coordinator.groups.streams.partitions import as_reader
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitRequest, TxnOffsetCommitRequest
from coordinator.runtime.result import Timer

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

_EMPTY = State.EMPTY  # Looking a name up in an enum costs more than the comparison.
_COMPLETING_REBALANCE = State.COMPLETING_REBALANCE

GROUP_ID_NOT_FOUND_SINCE = 9
"""OffsetCommit before this version says ILLEGAL_GENERATION to a member of a group that does not exist."""
NOT_OWNED = "the member does not own the partition"
AHEAD = "the epoch is ahead of the member's"
BEHIND = "the epoch is behind the member's"
LOST_SINCE = "the member lost a partition since that epoch"
NOT_OWNED_THEN = "the member did not own the partition in that epoch"
NAMES_NO_MEMBER = "the request names no member"
STALE_REASONS = (NOT_OWNED, AHEAD, BEHIND, LOST_SINCE, NOT_OWNED_THEN, NAMES_NO_MEMBER)
"""Why a member of a consumer or streams group may not commit; the last, why nobody may in a transaction."""

TXN_MEMBER_SINCE = 3
"""TxnOffsetCommit before this version cannot name a member."""
TXN_EPOCH_ERRORS_SINCE = 6
"""TxnOffsetCommit before this version says ILLEGAL_GENERATION to members of consumer groups, too, and of unknown ones."""
MEMBER, NO_MEMBER, OLD_VERSION = "member", "nobody: none named", "nobody: old version"
TXN_CHECKS = (MEMBER, NO_MEMBER, OLD_VERSION)
"""Who is checked of a commit in a transaction."""

NO_EPOCH = -1
MEMBER_EPOCH_SINCE = 9
"""OffsetCommit before this version cannot be of a member that speaks the consumer protocol."""


def fence_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
    """Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless this is a member, under its instance id if it gives one.

    A static member that leaves its instance id out is not fenced (seen with Kafka 4.4).
    """
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if holder != member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    if member_id not in group.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def fence_generation(group: ClassicGroup, generation: int) -> None:
    """Raises ILLEGAL_GENERATION for an older and for a newer generation alike."""
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def fence_commit(groups: "Groups", request: OffsetCommitRequest, api_version: int) -> Sequence[Timer]:
    """Raises unless the caller may commit offsets; returns the timers by which a member's commit keeps its session."""
    group = find_classic_group(groups, request.group_id)
    if group is None:
        modern = find_consumer_group(groups, request.group_id) or find_streams_group(groups, request.group_id)
        if modern is not None:
            _fence_modern_commit(groups, modern, request, api_version)
            return ()
        if request.generation_id_or_member_epoch < 0:
            groups.admit()
            return ()
        known = api_version >= GROUP_ID_NOT_FOUND_SINCE
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)
    return _fence_classic_commit(
        group, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
    )


def _fence_classic_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> Sequence[Timer]:
    state = group.state
    if state is _EMPTY and generation < 0:
        return ()
    if generation < 0 and not member_id and instance_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    fence_member(group, member_id, instance_id)
    fence_generation(group, generation)
    if state is _COMPLETING_REBALANCE:
        # It has the new generation but not yet its assignment: the commit is of partitions it may be losing.
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return (group.members[member_id].session_timer,)


# --- consumer and streams groups --------------------------------------------------------------------------------------

Modern = ConsumerGroup | StreamsGroup
Policies = ConsumerSettings | StreamsSettings


def reader_of(groups: "Groups", group: Modern, member_id: str) -> ConsumerMember | None:
    """The member of this id, as one that reads partitions; None if there is none."""
    if isinstance(group, ConsumerGroup):
        return group.members.get(member_id)
    member = group.members.get(member_id)
    return None if member is None else as_reader(group, member, group.topology, groups.catalog)


def policies_of(groups: "Groups", group: Modern) -> Policies:
    """The group's settings for what follows."""
    if isinstance(group, ConsumerGroup):
        return groups.settings.consumer(group.group_id)
    return groups.settings.streams(group.group_id)


def _fence_modern_commit(groups: "Groups", group: Modern, request: OffsetCommitRequest, api_version: int) -> None:
    """Instance ids are not looked at, as in Kafka: the member id says enough."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return
    member = reader_of(groups, group, request.member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.classic is None and api_version < MEMBER_EPOCH_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    why_not = _stale_because(groups, group, member, request)
    if why_not is not None:
        raise KafkaError(
            ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION, why_not
        )


def _stale_because(
    groups: "Groups", group: Modern, member: ConsumerMember, request: OffsetCommitRequest | TxnOffsetCommitRequest
) -> str | None:
    """The same as `stale_because`; counts what is refused."""
    epoch = request.generation_id_or_member_epoch
    settings = policies_of(groups, group)
    if epoch == member.member_epoch and not settings.require_ownership:
        return None
    metadata_max = groups.config.offset_metadata_max_bytes
    partitions = (
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if not is_too_large(partition.committed_metadata or "", metadata_max)
    )
    why_not = stale_because(member, epoch, partitions, settings)
    if why_not is not None:
        groups.counters.count_fenced(why_not)
    return why_not


def stale_because(
    member: ConsumerMember, epoch: int, partitions: Iterable[tuple[bytes, int]], settings: Policies
) -> str | None:
    """Why the member may not commit these partitions (topic id, index) with this epoch; None if it may."""
    if epoch == member.member_epoch:
        if settings.require_ownership and any(member.assignment_epoch(*each) is None for each in partitions):
            return NOT_OWNED
        return None
    if epoch > member.member_epoch:
        return AHEAD
    if settings.fencing_policy == REVOCATION_EPOCH:
        if not 0 <= member.revocation_epoch < epoch:
            return LOST_SINCE
    elif settings.fencing_policy != ASSIGNMENT_EPOCH:
        return BEHIND
    for each in partitions:
        since = member.assignment_epoch(*each)
        if since is None or since > epoch:
            return NOT_OWNED_THEN
    return None


def verdicts(
    member: ConsumerMember, epoch: int, partitions: Sequence[tuple[bytes, int]], settings: Policies
) -> Sequence[str | None]:
    """What `stale_because` says under each of FENCING_POLICIES, all else being as it is."""
    return [
        stale_because(member, epoch, partitions, replace(settings, fencing_policy=policy))
        for policy in FENCING_POLICIES
    ]


# --- in transactions ---------------------------------------------------------------------------------------------------


def names_nobody(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> bool:
    """Whether a commit leaves open whose it is."""
    epoch, instance_id = request.generation_id_or_member_epoch, request.group_instance_id
    return epoch == NO_EPOCH and not request.member_id and instance_id is None


def fence_commit_in_transaction(groups: "Groups", request: TxnOffsetCommitRequest, api_version: int) -> None:
    """Raises unless the consumer whose offsets a producer commits may commit them."""
    group_id, epoch = request.group_id, request.generation_id_or_member_epoch
    is_nobodys = names_nobody(request)
    groups.counters.count_txn_request(
        OLD_VERSION if api_version < TXN_MEMBER_SINCE else NO_MEMBER if is_nobodys else MEMBER
    )
    if is_nobodys and groups.settings.consumer(group_id).require_member:
        groups.counters.count_fenced(NAMES_NO_MEMBER)
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, NAMES_NO_MEMBER)
    modern = find_consumer_group(groups, group_id) or find_streams_group(groups, group_id)
    group = find_classic_group(groups, group_id)
    if modern is not None:
        if not is_nobodys and (epoch >= 0 or modern.members):
            _fence_modern_in_transaction(groups, modern, request, api_version)
    elif group is None:
        if epoch >= 0:
            known = api_version >= TXN_EPOCH_ERRORS_SINCE
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION)
        groups.admit()
    elif not is_nobodys and (epoch >= 0 or group.state is not _EMPTY):
        fence_member(group, request.member_id, request.group_instance_id)
        fence_generation(group, epoch)


def _fence_modern_in_transaction(
    groups: "Groups", group: Modern, request: TxnOffsetCommitRequest, api_version: int
) -> None:
    member = reader_of(groups, group, request.member_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    why_not = _stale_because(groups, group, member, request)
    if why_not is not None:
        says_stale = member.classic is None and api_version >= TXN_EPOCH_ERRORS_SINCE
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH if says_stale else ErrorCode.ILLEGAL_GENERATION, why_not)


def fence_fetch(groups: "Groups", group_id: str, member_id: str | None, epoch: int) -> None:
    """Raises unless the caller may read the offsets (OffsetFetch v9+): a member must have its epoch, whatever the policy.

    Whoever does not claim to be a member may read, and classic groups let everybody.
    """
    group = find_consumer_group(groups, group_id) or find_streams_group(groups, group_id)
    if group is None or (member_id is None and epoch < 0):
        return
    member = reader_of(groups, group, member_id or "")
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.member_epoch != epoch:
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION)
