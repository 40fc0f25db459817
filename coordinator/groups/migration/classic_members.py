"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848).

To such a member the group looks like a classic one in which every rebalance ends at once and another member leads:

    JoinGroup     acts as the member's heartbeat: subscription, owned partitions, one step towards the target. The response's
                  generation is the member epoch; it names no leader and no members, so the client takes itself for a follower
    SyncGroup     returns the member's current assignment
    Heartbeat     answers REBALANCE_IN_PROGRESS when the member has a step to take: the target has moved on, it must give up
                  partitions, or a partition it waits for is free. The member must rejoin within its rebalance timeout
    LeaveGroup    removes members of either protocol

A member with an eager assignor owns nothing when it joins, so it reaches the target in one join. A member with a cooperative
assignor lists what it owns in its subscription, learns from SyncGroup that it is to hold less, gives that up and rejoins.

Kafka accepts any member id in a JoinGroup here, because it does not remember which ids it handed out. An unknown id that claims
partitions was a member, was removed, and may be reading what another member has by now; this server answers
UNKNOWN_MEMBER_ID, and the client comes back with nothing.

A member that names its generation in a JoinGroup (KIP-792, an extension) is served as in a classic group. If the generation is
not its epoch, it is fenced and keeps its id. If it is, and the member has no step to take, the group's epoch is raised, and a
target computed at once (KIP-568).

Only members move a group forward: those of the consumer protocol, and classic ones by JoinGroup. Where all members are classic
ones, their heartbeats also compute a target that is due, unlike in Kafka, where nothing does.
"""

from dataclasses import replace

from coordinator.groups.administration import REMOVED
from coordinator.groups.classic.join_attempt import JoinAttempt
from coordinator.groups.classic.leave import Identity, MemberResult, identities, leave_response, removal_reason
from coordinator.groups.classic.responses import join_error
from coordinator.groups.consumer.group import (
    NO_PARTITIONS,
    ConsumerGroup,
    join_key,
    rebalance_key,
    session_key,
    sync_key,
)
from coordinator.groups.consumer.member import ClassicPart, ConsumerMember, MemberState
from coordinator.groups.consumer.reconcile import holds_on
from coordinator.groups.consumer.static_members import join as join_static
from coordinator.groups.consumer.update import ConsumerUpdate
from coordinator.groups.epochs.member import LEAVING_FOR_A_WHILE_EPOCH, Owned
from coordinator.groups.epochs.membership import fence_size, holder_of, member_of, short_id
from coordinator.groups.events import (
    acknowledged,
    delivered,
    event_only,
    member_fenced,
    member_joined,
    member_left,
    refused,
    refused_classic,
)
from coordinator.groups.group import CONSUMER_PROTOCOL_TYPE
from coordinator.groups.kinds import Kind
from coordinator.groups.migration.downgrade import downgrade_replacing, encoded, may_downgrade_replacing
from coordinator.groups.settings import DISABLED
from coordinator.groups.state import Groups
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator.protocol.releases import Behaviours
from coordinator.protocol.subscription import Subscription, parse_subscription
from coordinator.runtime.result import RequestContext, Result

MEMBER_ID_REQUIRED_SINCE = 4
_NO_GENERATION = -1


# --- JoinGroup --------------------------------------------------------------------------------------------------------


def join(
    groups: Groups, group: ConsumerGroup, request: JoinGroupRequest, context: RequestContext, now_ms: int
) -> Result:
    """Joins a consumer group that has members.

    Every error is in the reply: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, ILLEGAL_GENERATION. As in Kafka none returns the member id of the request, but
    for the last, with which a member keeps its id (KIP-792). Mirrors `GroupMetadataManager.classicGroupJoinToConsumerGroup`.
    """
    try:
        return _join(groups, group, JoinAttempt(request, context, now_ms))
    except KafkaError as error:
        facts = refused_classic(groups, request, error)
        member_id = request.member_id if error.code is ErrorCode.ILLEGAL_GENERATION else ""
        return Result(join_error(context.api_version, error.code, member_id), facts=facts)


def _join(groups: Groups, group: ConsumerGroup, attempt: JoinAttempt) -> Result:
    request, context, now_ms = attempt.request, attempt.context, attempt.now_ms
    behaviours = context.behaviours
    is_disabled = groups.config.group_consumer_migration_policy == DISABLED
    if is_disabled and not behaviours.classic_members_always_join:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_new = not request.member_id
    member_id = short_id(context.fresh_id) if is_new else request.member_id
    instance_id = request.group_instance_id
    successor = None if behaviours.successors_need_a_place else instance_id
    fence_size(group, groups.config.group_consumer_max_size, "consumer", member_id, successor)
    _check_protocols(group, attempt)
    if is_new and instance_id is None and context.api_version >= MEMBER_ID_REQUIRED_SINCE:
        return Result(join_error(context.api_version, ErrorCode.MEMBER_ID_REQUIRED, member_id))
    update = ConsumerUpdate(groups, group, now_ms)
    if instance_id is None:
        old = group.members.get(member_id) or ConsumerMember(member_id=member_id)
    else:
        holder = _holder(group, request.member_id, instance_id)
        may_downgrade = not behaviours.static_members_turn_classic_alone
        if holder is not None and may_downgrade and may_downgrade_replacing(groups, group, holder):
            if not is_new:
                _fence_claimed_generation(request, holder)
            return _turn_classic(update, holder, member_id, _subscription(attempt), attempt)
        old = join_static(update, member_id, instance_id, speaks_classic=True) if is_new or holder is None else holder
    subscription = _subscription(attempt)
    if instance_id is None and not is_new and member_id not in group.members and any(subscription.owned.values()):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if not is_new:
        _fence_claimed_generation(request, old)
    new = _with_request(old, attempt, subscription)
    update.fence_growth(old, new)
    owned: Owned = [
        (topic_id, partitions)
        for topic_id, partitions in (
            (groups.catalog.topic_id(name), partitions) for name, partitions in subscription.owned.items()
        )
        if topic_id is not None
    ]
    # A member that has no step to take and names its generation asks for a rebalance (KIP-568).
    enforces = request.generation_id == old.member_epoch and old.is_reconciled_to(group.target_epoch)
    stepped = update.advance(old, new, owned, context, enforces=enforces)
    group_id = group.group_id
    before = group.members.get(member_id)
    if before is None or before.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
        update.facts.append(
            member_joined(group_id, Kind.CONSUMER, member_id, instance_id, context, stepped.member_epoch)
        )
    else:
        update.facts += acknowledged(groups, group, before, owned)
    group.soft.rejoin_pending.discard(member_id)
    update.disarm(join_key(group_id, member_id))
    update.disarm(rebalance_key(group_id, member_id))
    update.arm(session_key(group_id, member_id), request.session_timeout_ms)
    update.arm(sync_key(group_id, member_id), max(attempt.rebalance_timeout_ms, 0))
    return update.result(_joined(attempt, member_id, stepped.member_epoch))


def _fence_claimed_generation(request: JoinGroupRequest, member: ConsumerMember) -> None:
    """KIP-792: a member that names its generation must name its epoch; a newcomer may name any. Raises ILLEGAL_GENERATION."""
    if request.generation_id not in (_NO_GENERATION, member.member_epoch):
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _holder(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember | None:
    """The holder of the instance id; None if a new member brings one that is free. Raises as `holder_of`."""
    if member_id:
        return holder_of(group, member_id, instance_id)
    return group.members.get(group.static_members.get(instance_id, ""))


def _joined(attempt: JoinAttempt, member_id: str, generation: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=generation,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=attempt.protocols[0][0],
        leader="",
        member_id=member_id,
        members=[],
    )


def _turn_classic(
    update: ConsumerUpdate, holder: ConsumerMember, member_id: str, subscription: Subscription, attempt: JoinAttempt
) -> Result:
    """The last member of the consumer protocol comes back as a classic one, and the group is converted with it."""
    group = update.group
    heir = replace(holder, member_id=member_id, member_epoch=group.group_epoch)
    successor = _with_request(heir, attempt, subscription)
    update.fence_growth(holder, successor)
    is_settled = group.group_epoch == group.target_epoch and all(
        member is holder or member.is_reconciled_to(group.group_epoch) for member in group.members.values()
    )
    target = group.target.get(holder.member_id, NO_PARTITIONS)
    held = {topic_id: frozenset(partitions) for topic_id, partitions in holder.assigned.items()}
    has_its_target = holder.state is MemberState.STABLE and held == target
    wants_the_same = successor.topics == holder.topics and not holder.regex
    rebalances = not (is_settled and has_its_target and wants_the_same)
    downgrade_replacing(update, holder, successor, rebalances=rebalances)
    _emit_turned(update, holder, member_id, attempt)
    return update.result(_joined(attempt, member_id, group.group_epoch))


def _emit_turned(update: ConsumerUpdate, holder: ConsumerMember, member_id: str, attempt: JoinAttempt) -> None:
    """Emits that a classic member took the place of the holder, unless it is the holder itself and had not left."""
    group, instance_id = update.group, holder.instance_id
    if member_id != holder.member_id:
        fence = member_fenced(
            group.group_id,
            Kind.CONSUMER,
            holder.member_id,
            instance_id,
            holder.member_epoch,
            ErrorCode.FENCED_INSTANCE_ID,
            "JoinGroup",
        )
        update.facts.append(event_only(fence))
    elif holder.member_epoch != LEAVING_FOR_A_WHILE_EPOCH:
        return
    update.facts.append(
        member_joined(group.group_id, Kind.CLASSIC, member_id, instance_id, attempt.context, group.group_epoch)
    )


def _check_protocols(group: ConsumerGroup, attempt: JoinAttempt) -> None:
    """Raises INCONSISTENT_GROUP_PROTOCOL for a member whose protocols do not go with those of the group."""
    names = attempt.protocol_names()
    if attempt.request.protocol_type != CONSUMER_PROTOCOL_TYPE or len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not group.supports_classic(names):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(attempt: JoinAttempt) -> Subscription:
    """The member's subscription.

    Raises INCONSISTENT_GROUP_PROTOCOL if it cannot be read, as earlier releases UNKNOWN_SERVER_ERROR.
    """
    try:
        return parse_subscription(attempt.protocols[0][1])
    except DecodeError:
        is_unexpected = attempt.context.behaviours.malformed_subscriptions_are_unexpected
        code = ErrorCode.UNKNOWN_SERVER_ERROR if is_unexpected else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        raise KafkaError(code) from None


def _with_request(old: ConsumerMember, attempt: JoinAttempt, subscription: Subscription) -> ConsumerMember:
    """The member as its JoinGroup describes it; the same object if nothing changed."""
    request, context = attempt.request, attempt.context
    new = replace(
        old,
        instance_id=request.group_instance_id or old.instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        client_id=context.client_id or "",
        client_host=context.client_host,
        topics=frozenset(subscription.topics),
        regex="",
        classic=ClassicPart(session_timeout_ms=request.session_timeout_ms, protocols=attempt.protocols),
    )
    return old if new == old else new


# --- SyncGroup, Heartbeat ---------------------------------------------------------------------------------------------


def sync(
    groups: Groups, group: ConsumerGroup, request: SyncGroupRequest, context: RequestContext, now_ms: int
) -> Result:
    """Answers with the member's assignment.

    Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL; the reply may be
    REBALANCE_IN_PROGRESS. Mirrors `GroupMetadataManager.classicGroupSyncToConsumerGroup`.
    """
    member = _classic_member(group, request.member_id, request.group_instance_id)
    assert member.classic is not None
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    name, metadata = member.classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    update = ConsumerUpdate(groups, group, now_ms)
    if group.target_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _require_rejoin(update, member)
        return update.result(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group_id = group.group_id
    update.disarm(sync_key(group_id, member.member_id))
    update.arm(session_key(group_id, member.member_id), member.classic.session_timeout_ms)
    update.facts += delivered(groups, group, member)
    return update.result(
        SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encoded(groups.catalog, member.assigned, metadata),
        )
    )


def heartbeat(
    groups: Groups, group: ConsumerGroup, request: HeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    """Restarts the member's session; the reply says whether it must rejoin (REBALANCE_IN_PROGRESS).

    Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION. Mirrors
    `GroupMetadataManager.classicGroupHeartbeatToConsumerGroup`.
    """
    try:
        return _heartbeat(groups, group, request, context, now_ms)
    except KafkaError as error:
        error.facts = refused_classic(groups, request, error)
        raise


def _heartbeat(
    groups: Groups, group: ConsumerGroup, request: HeartbeatRequest, context: RequestContext, now_ms: int
) -> Result:
    member = _classic_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    assert member.classic is not None
    update = ConsumerUpdate(groups, group, now_ms)
    update.arm(session_key(group.group_id, member.member_id), member.classic.session_timeout_ms)
    target_epoch = group.target_epoch
    is_behind = target_epoch < group.group_epoch or group.soft.catalog_version != groups.catalog.version
    if is_behind and group.classic_members == len(group.members):
        target_epoch, _ = update.catch_up(member, member, context)
    code = ErrorCode.NONE
    if _must_join(group, member, target_epoch):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        _require_rejoin(update, member)
    return update.result(HeartbeatResponse(error_code=code))


def _must_join(group: ConsumerGroup, member: ConsumerMember, target_epoch: int) -> bool:
    """Whether the member has a step to take."""
    if member.member_epoch < target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS or holds_on(member, target_epoch):
        return False
    return not any(
        partition not in member.assigned.get(topic_id, ())
        and group.owner(topic_id, partition) not in (None, member.member_id)
        for topic_id, partitions in group.target.get(member.member_id, {}).items()
        for partition in partitions
    )


def _require_rejoin(update: ConsumerUpdate, member: ConsumerMember) -> None:
    """Gives the member its rebalance timeout to rejoin, counted from the first response that asked it to."""
    if member.member_id not in update.group.soft.rejoin_pending:
        update.group.soft.rejoin_pending.add(member.member_id)
        update.arm(join_key(update.group_id, member.member_id), max(member.rebalance_timeout_ms, 0))


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member. Raises FENCED_INSTANCE_ID, and UNKNOWN_MEMBER_ID also for a member of the consumer protocol."""
    member = member_of(group, member_id) if instance_id is None else holder_of(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


# --- LeaveGroup -------------------------------------------------------------------------------------------------------


def leave(
    groups: Groups, group: ConsumerGroup, request: LeaveGroupRequest, context: RequestContext, now_ms: int
) -> Result:
    """Removes the named members. Results of single members: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.

    Mirrors `GroupMetadataManager.classicGroupLeaveToConsumerGroup`.
    """
    update = ConsumerUpdate(groups, group, now_ms)
    gone: dict[str, ConsumerMember] = {}
    removals: list[str] = []
    results: list[MemberResult] = []
    for each in identities(request, context.api_version):
        code = ErrorCode.NONE
        try:
            member = _leaving(group, each, context.behaviours)
            if member.member_id not in gone:
                removal = removal_reason(each, member.client_id, context)
                removals += () if removal is None else (removal,)
                update.facts.append(
                    member_left(
                        group.group_id,
                        Kind.CONSUMER,
                        member.member_id,
                        member.instance_id,
                        member.member_epoch,
                        each.reason if removal is None else f"{REMOVED}: {removal}",
                    )
                )
            gone[member.member_id] = member
        except KafkaError as error:
            code = error.code
            update.facts += refused(
                groups, group.group_id, each.member_id, each.group_instance_id, -1, error, "LeaveGroup"
            )
        results.append(MemberResult(each.member_id, each.group_instance_id, code))
    update.remove(list(gone.values()), REMOVED if removals else "a member left", next(iter(removals), None))
    return update.result(leave_response(results, context.api_version))


def _leaving(group: ConsumerGroup, each: Identity, behaviours: Behaviours) -> ConsumerMember:
    if behaviours.only_classic_members_leave_by_name:
        return _classic_member(group, each.member_id, each.group_instance_id)
    if each.group_instance_id is None:
        return member_of(group, each.member_id)
    member_id = each.member_id or group.static_members.get(each.group_instance_id, "")
    return holder_of(group, member_id, each.group_instance_id)
