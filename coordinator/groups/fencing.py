"""Who may commit for a group: is the client still the member that it claims to be?

A fence changes nothing and answers nothing: it returns, or raises the error from which the client learns what it has become.
The order of the checks is Kafka's (`validateOffsetCommit` of `ClassicGroup`, `ConsumerGroup` and `StreamsGroup`), because
clients react differently to each error: a member id that was taken over by its successor (FENCED_INSTANCE_ID) is fatal to the
client, an unknown member starts from scratch, and a wrong generation rejoins with its id.

A group that does not exist accepts commits from everybody who does not claim to be a member: so simple consumers and
administrators store offsets.

A member of a classic group must have the generation. In a group with epochs, a member commits with its epoch, and the epoch
moves meanwhile: a commit that left the client before the heartbeat's response arrived carries the previous one. Which earlier
epochs are accepted is a policy (`group.consumer.fencing.policy`); the log keeps everything about epochs, so the policy may
change at any time:

    strict              none (Kafka up to 4.2): every rebalance may fail commits of members that nothing was taken from
    revocation-epoch    those after the last epoch in which the member lost a partition (KAFKA-19779), for partitions that it
                        has had since. A member whose record does not say, because a Kafka wrote it, is held to `strict`
    assignment-epoch    those since the member was given the partition (KIP-1251, Kafka 4.4)

A member of a streams group is fenced by the partitions that its active tasks read, and by the epochs of these tasks (KIP-1071),
under `group.streams.fencing.policy`. Losing a standby or warm-up task changes nothing.

No policy accepts a commit that was made before the partition went to another member. One partition that fails, fails the
request. The policies concern earlier epochs: at its current epoch a member may commit anything, as in Kafka, even what it
never had. `fencing.require.ownership` ends that. What it lost *in* an epoch, by a resync, no member commits with that epoch,
whatever kind the group is by now (fence.py).

Offsets that a producer commits in a transaction belong to its consumer, which the request names (KIP-447). The same rules hold
with two exceptions, as in Kafka. The state of a classic group does not matter. And a request that names no member is accepted,
also for a group that has members: clients before Kafka 2.5 cannot name one (TxnOffsetCommit v0-2), and later ones need not.
Nothing fences the consumer of such a producer; `Counters.txn_requests` counts them, and `fencing.require.member`
refuses them.
"""

from collections.abc import Iterable, Iterator, Sequence

from coordinator.groups.committer import NO_GROUP, Committer, FencingPolicies, Origin
from coordinator.groups.fence import Fence, Partition
from coordinator.groups.group import Group
from coordinator.groups.offsets.metadata import is_too_large
from coordinator.groups.settings import ASSIGNMENT_EPOCH, FENCING_POLICIES, REVOCATION_EPOCH
from coordinator.groups.state import Groups
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import OffsetCommitRequest, TxnOffsetCommitRequest
from coordinator.protocol.releases import AS_NEWEST, Behaviours
from coordinator.runtime.result import RequestContext, Timer

GROUP_ID_NOT_FOUND_SINCE = 9
"""OffsetCommit before this version answers ILLEGAL_GENERATION to a member of a group that does not exist."""
MEMBER_EPOCH_SINCE = 9
"""OffsetCommit before this version cannot come from a member that speaks the consumer protocol."""
TXN_MEMBER_SINCE = 3
"""TxnOffsetCommit before this version cannot name a member."""
TXN_EPOCH_ERRORS_SINCE = 6
"""TxnOffsetCommit before this version answers ILLEGAL_GENERATION also for unknown groups and for groups with epochs."""
NO_EPOCH = -1

NOT_OWNED = "the member does not own the partition"
AHEAD = "the epoch is ahead of the member's"
BEHIND = "the epoch is behind the member's"
LOST_SINCE = "the member lost a partition since that epoch"
NOT_OWNED_THEN = "the member did not own the partition in that epoch"
LOSS_UNKNOWN = "it is not known when the member last lost a partition"
NAMES_NO_MEMBER = "the request names no member"
RESYNCED = "a resync gave the partition to another member in that epoch"
STALE_REASONS = (NOT_OWNED, AHEAD, BEHIND, LOST_SINCE, NOT_OWNED_THEN, LOSS_UNKNOWN, NAMES_NO_MEMBER, RESYNCED)
"""Why a member may not commit: in a group with epochs; in transactions; after a resync."""

MEMBER, NO_MEMBER, OLD_VERSION = "member", "nobody: none named", "nobody: old version"
TXN_CHECKS = (MEMBER, NO_MEMBER, OLD_VERSION)
"""Whether the consumer of a commit in a transaction could be checked, for metrics."""


# --- members ----------------------------------------------------------------------------------------------------------


def fence_member(group: Group, member_id: str, instance_id: str | None, behaviours: Behaviours = AS_NEWEST) -> None:
    """Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless this is a member, under its instance id if it gives one.

    A static member that leaves out its instance id is not fenced (seen with Kafka 4.4).
    """
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            if not behaviours.unknown_instance_is_ignored:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        elif holder != member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    if member_id not in group.members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def fence_generation(group: Group, generation: int) -> None:
    """Raises ILLEGAL_GENERATION for an earlier and for a later generation alike."""
    if generation != group.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def names_no_member(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> bool:
    """Whether a commit leaves open which member it comes from."""
    epoch, instance_id = request.generation_id_or_member_epoch, request.group_instance_id
    return epoch == NO_EPOCH and not request.member_id and instance_id is None


# --- commits ----------------------------------------------------------------------------------------------------------


def fence_commit(
    groups: Groups, request: OffsetCommitRequest, context: RequestContext
) -> tuple[Origin, Sequence[Timer]]:
    """Returns where the commit comes from, and the timers that it re-arms: it extends the session of a classic member.

    Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH, REBALANCE_IN_PROGRESS,
    GROUP_ID_NOT_FOUND or UNSUPPORTED_VERSION; and GROUP_MAX_SIZE_REACHED or COORDINATOR_NOT_AVAILABLE if the commit would
    create one group too many.
    """
    group, epoch = groups.by_id.get(request.group_id), request.generation_id_or_member_epoch
    if group is None:
        _fence_without_generation(request, context.behaviours)
        is_old = context.api_version < GROUP_ID_NOT_FOUND_SINCE or context.behaviours.commit_to_no_group_is_old
        error = ErrorCode.ILLEGAL_GENERATION if is_old else ErrorCode.GROUP_ID_NOT_FOUND
        _fence_unknown_group(groups, request.group_id, epoch, error)
        return NO_GROUP, ()
    policies = group.fencing_policies(groups.settings) if group.has_member_epochs else None
    if epoch < 0 and group.is_empty:
        _fence_without_generation(request, context.behaviours)
        return (group.kind, None, policies), ()
    committer = _committer(groups, group, request, context)
    if context.api_version < MEMBER_EPOCH_SINCE and not committer.uses_classic_protocol:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    fence = group.fence
    if epoch != committer.member_epoch or epoch == fence.epoch or (policies is not None and policies.require_ownership):
        fence_epoch(groups, committer, policies, request, fence=fence, stale=ErrorCode.STALE_MEMBER_EPOCH)
    return (group.kind, committer, policies), group.commit_timers(request.member_id)


def fence_commit_in_transaction(groups: Groups, request: TxnOffsetCommitRequest, context: RequestContext) -> None:
    """Returns if the consumer whose offsets a producer commits may commit them, or if the request names no member (KIP-447).

    Raises the errors of `fence_commit` except REBALANCE_IN_PROGRESS and UNSUPPORTED_VERSION.
    """
    api_version, behaviours = context.api_version, context.behaviours
    epoch, is_anonymous = request.generation_id_or_member_epoch, names_no_member(request)
    groups.counters.count_txn_request(
        OLD_VERSION if api_version < TXN_MEMBER_SINCE else NO_MEMBER if is_anonymous else MEMBER
    )
    if is_anonymous and groups.settings.consumer(request.group_id).require_member:
        groups.counters.count_fenced(NAMES_NO_MEMBER)
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, NAMES_NO_MEMBER)
    group, has_own_errors = groups.by_id.get(request.group_id), api_version >= TXN_EPOCH_ERRORS_SINCE
    if group is not None and not group.has_offsets:
        raise group.no_offsets()
    if behaviours.txn_commit_is_fenced_by_what_it_names and not (group and group.has_member_epochs):
        _fence_by_what_is_named(group, request)
        if group is None:
            groups.admit(request.group_id)
        return
    if group is None or group.is_empty:
        _fence_without_generation(request, behaviours)
    if group is None:
        error = (
            ErrorCode.UNKNOWN_MEMBER_ID if behaviours.txn_commit_to_no_group_is_unknown
            else ErrorCode.GROUP_ID_NOT_FOUND if has_own_errors
            else ErrorCode.ILLEGAL_GENERATION
        )  # fmt: skip
        _fence_unknown_group(groups, request.group_id, epoch, error)
    elif not is_anonymous and (epoch >= 0 or not group.is_empty):
        stale = ErrorCode.STALE_MEMBER_EPOCH if has_own_errors else ErrorCode.ILLEGAL_GENERATION
        committer, policies = _committer(groups, group, request, context), group.fencing_policies(groups.settings)
        fence_epoch(groups, committer, policies, request, fence=group.fence, stale=stale)


def origin_of(groups: Groups, group_id: str, member_id: str) -> Origin:
    """Where a commit of this member comes from, accepted or not."""
    group = groups.by_id.get(group_id)
    if group is None:
        return NO_GROUP
    if not group.has_offsets:
        return group.kind, None, None
    return group.kind, group.find_committer(member_id, groups.catalog), group.fencing_policies(groups.settings)


def _fence_without_generation(request: OffsetCommitRequest | TxnOffsetCommitRequest, behaviours: Behaviours) -> None:
    """Kafka 3.0 to 3.2 refuse a member without a generation where others take its commit. Raises UNKNOWN_MEMBER_ID."""
    names_member_alone = request.generation_id_or_member_epoch < 0 and not names_no_member(request)
    if names_member_alone and behaviours.commit_without_generation_names_no_member:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)


def _fence_by_what_is_named(group: Group | None, request: TxnOffsetCommitRequest) -> None:
    """Kafka up to 2.8 checks each field that is set on its own; a group that does not exist has generation 0.

    Raises FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION.
    """
    holders, members = (group.static_members, group.members) if group else ({}, {})
    if holders.get(request.group_instance_id or "", request.member_id) != request.member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    if request.member_id and request.member_id not in members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    generation = request.generation_id_or_member_epoch
    if generation >= 0 and generation != (group.epoch if group else 0):
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _fence_unknown_group(groups: Groups, group_id: str, epoch: int, error: ErrorCode) -> None:
    """A commit creates the group if it does not claim to come from a member; else it gets this error."""
    if epoch >= 0:
        raise KafkaError(error)
    groups.admit(group_id)


def _committer(
    groups: Groups, group: Group, request: OffsetCommitRequest | TxnOffsetCommitRequest, context: RequestContext
) -> Committer:
    """The member that the request names. Groups with epochs ignore instance ids, as in Kafka: the member id is enough."""
    if request.group_instance_id is not None and not group.has_member_epochs:
        fence_member(group, request.member_id, request.group_instance_id, context.behaviours)
    committer = group.find_committer(request.member_id, groups.catalog)
    if committer is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return committer


def fence_epoch(
    groups: Groups,
    committer: Committer,
    policies: FencingPolicies | None,
    request: OffsetCommitRequest | TxnOffsetCommitRequest,
    *,
    fence: Fence,
    stale: ErrorCode,
) -> None:
    """Raises `stale` (ILLEGAL_GENERATION to a member that speaks the classic protocol) if the epoch may not commit.

    What a member lost without a new epoch it may not commit with that epoch under any policy, nor in a classic group.
    """
    epoch = request.generation_id_or_member_epoch
    if fence.forbids(request.member_id, epoch, _named_partitions(request)):
        groups.counters.count_fenced(RESYNCED)
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION if committer.uses_classic_protocol else stale, RESYNCED)
    if policies is None:
        if epoch != committer.member_epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    if epoch == committer.member_epoch and not policies.require_ownership:
        return  # As any policy decides; the usual commit needs no list of its partitions.
    metadata_max = groups.config.offset_metadata_max_bytes
    reason = stale_because(committer, epoch, committed_partitions(request, metadata_max), policies)
    if reason is not None:
        groups.counters.count_fenced(reason)
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION if committer.uses_classic_protocol else stale, reason)


def _named_partitions(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> Iterator[Partition]:
    return ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)


def committed_partitions(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, metadata_max: int
) -> list[tuple[bytes, int]]:
    """Topic id and index of the partitions of a commit, without those that are refused for their metadata."""
    return [
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if not is_too_large(partition.committed_metadata or "", metadata_max)
    ]


# --- policies ---------------------------------------------------------------------------------------------------------


def stale_because(
    committer: Committer, epoch: int, partitions: Iterable[tuple[bytes, int]], policies: FencingPolicies
) -> str | None:
    """Why the member may not commit these partitions (topic id, index) with this epoch; None if it may."""
    return _stale_under(policies.fencing_policy, committer, epoch, partitions, policies)


def verdicts(
    committer: Committer, epoch: int, partitions: Sequence[tuple[bytes, int]], policies: FencingPolicies
) -> Sequence[str | None]:
    """What `stale_because` would return under each of FENCING_POLICIES, everything else unchanged."""
    return [_stale_under(policy, committer, epoch, partitions, policies) for policy in FENCING_POLICIES]


def _stale_under(
    policy: str, committer: Committer, epoch: int, partitions: Iterable[tuple[bytes, int]], policies: FencingPolicies
) -> str | None:
    if epoch == committer.member_epoch:
        if policies.require_ownership and any(committer.assignment_epoch(*each) is None for each in partitions):
            return NOT_OWNED
        return None
    if epoch > committer.member_epoch:
        return AHEAD
    if policy == REVOCATION_EPOCH:
        if committer.revocation_epoch >= epoch:
            return LOST_SINCE
    elif policy != ASSIGNMENT_EPOCH:
        return BEHIND
    for each in partitions:
        since = committer.assignment_epoch(*each)
        if since is None or since > epoch:
            return NOT_OWNED_THEN
    if policy == REVOCATION_EPOCH and committer.revocation_epoch < 0:
        return LOSS_UNKNOWN
    return None


# --- reading ----------------------------------------------------------------------------------------------------------


def fence_fetch(groups: Groups, group_id: str, member_id: str | None, epoch: int) -> None:
    """Returns if the client may read the group's offsets (OffsetFetch v9+; `validateOffsetFetch` in Kafka).

    A member must have its current epoch, whatever the policy. Everybody who does not claim to be a member may read, and
    everybody may read from a classic group.

    Raises UNKNOWN_MEMBER_ID, or STALE_MEMBER_EPOCH (ILLEGAL_GENERATION to a member that speaks the classic protocol), or
    UNKNOWN_SERVER_ERROR for an epoch without a member id, which Kafka looks up unchecked (seen with 4.1 and 4.4).
    """
    group = groups.by_id.get(group_id)
    if group is None or not group.has_member_epochs or not group.has_offsets or (member_id is None and epoch < 0):
        return
    if member_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    committer = group.find_committer(member_id, groups.catalog)
    if committer is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if committer.member_epoch != epoch:
        classic = committer.uses_classic_protocol
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION if classic else ErrorCode.STALE_MEMBER_EPOCH)
